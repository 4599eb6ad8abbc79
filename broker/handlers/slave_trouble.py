"""REPORT_SLAVE_TROUBLE, a request of ours (docs/departures.md).

A slave reports why its replication stopped. The text goes into remarks that producers get, so a report is accepted only
from a slave of this group: from the address of an HA connection that has reported, or from the host that a nameserver
has for the broker id.
"""

import logging

from rmqlab.broker.group_members import registered_address
from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.replication import ReportSlaveTroubleRequestHeader
from rmqlab.remoting.names import MASTER_ID
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route, not_supported

log = logging.getLogger(__name__)

FORGED = "this is not the address of a slave of this group"


def report_slave_trouble(broker: Broker, _header: None, request: Request) -> Reply | None:
    """Record the report of a slave, after checking that it is a slave of this master.

    Without `ha_report_trouble` the reply is that of 4.9.8 to an unknown code, before the header is parsed.
    """
    if not broker.ha_master.settings.ha_report_trouble:
        return not_supported(request.command.code)
    header = request.command.header(ReportSlaveTroubleRequestHeader)
    _check(broker, header)
    host = request.channel.peer.rpartition(":")[0]
    if not broker.ha_master.troubles.admit(host, header.broker_id):
        raise Refusal(ResponseCode.SYSTEM_BUSY, "reports of slaves come too fast")
    if broker.ha_master.has_reporting_slave(f"{host}:{header.ha_port}"):
        _note(broker, header, host)
        return Reply()

    async def look_up() -> None:
        config = broker.config
        address = await registered_address(broker.client, config.namesrv_addrs, config.broker_name, header.broker_id)
        if address is not None and address.rpartition(":")[0] == host:
            _note(broker, header, host)
            request.reply(Reply())
        else:
            log.warning("%s reported a trouble as slave %d, but is not a slave of this group", host, header.broker_id)
            request.reply(Reply(ResponseCode.NO_PERMISSION, remark=FORGED))

    broker.run_for_request(request, look_up)
    return None


def _check(broker: Broker, header: ReportSlaveTroubleRequestHeader) -> None:
    if not header.text or not header.slave_name or header.broker_id <= MASTER_ID:
        raise HeaderError("the report of a slave without text, name, or id of a slave")
    config = broker.config
    if (header.cluster_name, header.broker_name) != (config.broker_cluster_name, config.broker_name):
        raise Refusal(ResponseCode.NO_PERMISSION, f"this is {config.broker_name} in {config.broker_cluster_name}")


def _note(broker: Broker, header: ReportSlaveTroubleRequestHeader, host: str) -> None:
    broker.ha_master.troubles.note(header.broker_id, header.slave_name, host, header.text)


ROUTES: list[Route[Broker]] = [Route(RequestCode.REPORT_SLAVE_TROUBLE, None, report_slave_trouble)]
