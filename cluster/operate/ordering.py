"""Order topics: their queues in the name servers' key-value table, as mqadmin's updateTopic -o writes them.

Namespace ORDER_TOPIC_CONFIG, key: the topic, value: `broker-a:8;broker-b:8`. Name servers send it to clients with
`orderMessageEnable` only: then a topic keeps its queues in routes while brokers are away.
"""

from collections.abc import Collection, Mapping

from rmqlab.client.errors import BrokerError
from rmqlab.cluster.operate.session import Operator
from rmqlab.remoting.codes import ResponseCode

NAMESPACE = "ORDER_TOPIC_CONFIG"


async def order_configs(operator: Operator) -> Mapping[str, str]:
    """Return the values of all order topics, as the name server in use has them."""
    try:
        return await operator.admin.kv_list(NAMESPACE)
    except BrokerError as exc:
        if exc.code != ResponseCode.QUERY_NOT_FOUND:
            raise
        return {}


async def order_config(operator: Operator, topic: str) -> str | None:
    """Return the value of a topic; None if it is no order topic."""
    try:
        return await operator.admin.get_kv(NAMESPACE, topic)
    except BrokerError as exc:
        if exc.code != ResponseCode.QUERY_NOT_FOUND:
            raise
        return None


async def write_order_config(
    operator: Operator, topic: str, queues: Mapping[str, int], without: Collection[str] = ()
) -> str | None:
    """Set the queues of these broker names at all name servers; return the value. Other broker names keep theirs.

    `without`: broker names at which the topic is no order topic. If none is left, the value is deleted.
    """
    before = await order_config(operator, topic)
    kept = {name: value for name, value in parse_order_config(before or "").items() if name not in without}
    after = ";".join(f"{name}:{number}" for name, number in sorted({**kept, **queues}.items()))
    if after:
        await operator.admin.put_kv(NAMESPACE, topic, after)
    elif before is not None:
        await operator.admin.delete_kv(NAMESPACE, topic)
    return after or None


def parse_order_config(value: str) -> dict[str, str]:
    """Return the queues of each broker name; parts of another form are left out."""
    parts = (part.rpartition(":") for part in value.split(";"))
    return {name: number for name, colon, number in parts if name and colon}
