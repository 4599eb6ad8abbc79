"""Looks up other brokers of this broker's group at the nameservers."""

from collections.abc import Sequence
from typing import Final

from rmqlab.remoting.bodies.route import ClusterInfo
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError

TIMEOUT: Final = 1.0
"""Seconds for each nameserver."""


async def registered_address(
    client: RemotingClient, nameservers: Sequence[str], broker_name: str, broker_id: int
) -> str | None:
    """Return a broker's registered address, `host:port`.

    The first nameserver that has one counts. None if no nameserver has it, or none can be asked.
    """
    for nameserver in nameservers:
        try:
            reply = await client.request(nameserver, request(RequestCode.GET_BROKER_CLUSTER_INFO), TIMEOUT)
            if reply.code != ResponseCode.SUCCESS:
                continue
            group = ClusterInfo.decode(reply.body).broker_addr_table.get(broker_name)
        except (RemotingError, BodyError):
            continue
        if group is not None and (address := group.broker_addrs.get(broker_id)) is not None:
            return address
    return None
