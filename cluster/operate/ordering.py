"""Order topics: their queues in the key-value table of the nameservers.

As mqadmin's updateTopic -o writes them. Namespace ORDER_TOPIC_CONFIG, key: the topic, value: `broker-a:8;broker-b:8`.
Nameservers send it to clients with `orderMessageEnable` only: then a topic keeps its queues in routes while brokers are
away.
"""

from collections.abc import Mapping

from rmqlab.client.errors import BrokerError
from rmqlab.cluster.operate.session import Operator
from rmqlab.remoting.codes import ResponseCode

NAMESPACE = "ORDER_TOPIC_CONFIG"


async def order_configs(operator: Operator) -> Mapping[str, str]:
    """Return the values of all order topics, as the nameserver in use has them."""
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


async def change_order_config(
    operator: Operator, topic: str, queues: Mapping[str, int], *, order: bool | None
) -> dict[str, str]:
    """Write the queues of broker names; return those of all broker names.

    `order`: whether it is an order topic at these broker names; None keeps that. Other broker names keep their queues.
    All nameservers get the value; without any queues, they delete it.
    """
    before = await order_config(operator, topic)
    found = parse_order_config(before or "")
    for name, number in queues.items():
        if order or (order is None and name in found):
            found[name] = str(number)
        else:
            found.pop(name, None)
    after = order_config_text(found)
    if after and after != before:
        await operator.admin.put_kv(NAMESPACE, topic, after)
    elif before is not None and not after:
        await operator.admin.delete_kv(NAMESPACE, topic)
    return found


def order_config_text(queues: Mapping[str, str]) -> str:
    """Return the value for these queues by broker name."""
    return ";".join(f"{name}:{number}" for name, number in sorted(queues.items()))


def parse_order_config(value: str) -> dict[str, str]:
    """Return the queues of each broker name; parts of another form are left out."""
    parts = (part.rpartition(":") for part in value.split(";"))
    return {name: number for name, colon, number in parts if name and colon}
