"""Write permission of a broker at the nameservers.

The model is mqadmin's wipeWritePerm and addWritePerm.

Producers avoid a broker without it; consumers read on. A registration that changes a topic's queues, and a restart of
the broker, bring it back.
"""

from collections.abc import Mapping

import attrs

from rmqlab.cluster.operate.errors import unknown
from rmqlab.cluster.operate.session import Operator


@attrs.frozen(kw_only=True)
class WritePermission:
    """The change of a broker's write permission."""

    broker: str
    can_write: bool
    topics: Mapping[str, int]
    """Number of changed topics by nameserver."""


async def wipe_write_perm(operator: Operator, broker: str) -> WritePermission:
    """Remove the write permission of a broker name from all routes.

    OperationError for an unknown one.
    """
    await _check(operator, broker)
    return WritePermission(broker=broker, can_write=False, topics=await operator.admin.wipe_write_perm(broker))


async def add_write_perm(operator: Operator, broker: str) -> WritePermission:
    """Undo `wipe_write_perm`. OperationError for an unknown broker name."""
    await _check(operator, broker)
    return WritePermission(broker=broker, can_write=True, topics=await operator.admin.add_write_perm(broker))


async def _check(operator: Operator, broker: str) -> None:
    table = (await operator.admin.cluster_info()).broker_addr_table
    if broker not in table:
        raise unknown("broker name", broker, table)
