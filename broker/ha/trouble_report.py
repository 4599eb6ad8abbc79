"""Reports to the master why this slave stopped, with `ha_report_trouble`.

The HA stream has no message for it, so the slave sends request 30001, which is ours, to the remoting port of the master
that the nameservers name. Any other broker replies REQUEST_CODE_NOT_SUPPORTED, which is ignored.
"""

import logging
from collections.abc import Callable
from typing import Final

import attrs

from rmqlab.broker.failure_log import FailureLog, short
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.master_precheck import Identity
from rmqlab.broker.ha.slave_troubles import one_line
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request
from rmqlab.remoting.headers.replication import ReportSlaveTroubleRequestHeader
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError

log = logging.getLogger(__name__)

TIMEOUT: Final = 3.0
"""Seconds for the reply. The HA connection stays open meanwhile, so that the master believes the report."""
LEAST_INTERVAL: Final = 1.0
"""Seconds between two reports."""


@attrs.define(eq=False)
class TroubleReporter:
    """The reports of one slave."""

    identity: Identity
    broker_id: int
    slave_name: str
    client: RemotingClient
    known_master: KnownMaster
    now: Callable[[], float]
    _reported_at: float = attrs.field(default=-float("inf"), init=False)
    _failures: FailureLog = attrs.field(factory=lambda: FailureLog(log), init=False)

    async def report(self, text: str, ha_port: int) -> None:
        """Send a report, and return when the master has replied or has had its time.

        Without a registered master, or too soon after the last report, it is left out. A failure is logged once.
        """
        address = self.known_master.address
        if address is None or self.now() - self._reported_at < LEAST_INTERVAL:
            return
        self._reported_at = self.now()
        header = ReportSlaveTroubleRequestHeader(
            cluster_name=self.identity.cluster_name,
            broker_name=self.identity.broker_name,
            broker_id=self.broker_id,
            slave_name=self.slave_name,
            ha_port=ha_port,
            text=one_line(text),
        )
        try:
            reply = await self.client.request(address, request(RequestCode.REPORT_SLAVE_TROUBLE, header), TIMEOUT)
        except RemotingError as exc:
            self._failures.add(address, f"trouble not reported: {exc}")
            return
        if reply.code in (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
            self._failures.recovered(address)
        else:
            self._failures.add(
                address, f"trouble not reported: {address} replied code {reply.code}, {short(reply.remark)}"
            )
