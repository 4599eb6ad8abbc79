"""Groups: their configuration and connected clients.

Sources: broker-requests sections 3.6, 6.3, 6.4.
"""

import msgspec

from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rmqlab.remoting.bodies.topic import DataVersion
from rmqlab.remoting.body import Body, Table
from rmqlab.remoting.header import Int, Long


class SubscriptionGroupConfig(Body, frozen=True, kw_only=True):
    """The settings of one consumer group.

    In the request of 200, the response of 201, and subscriptionGroup.json.
    """

    broker_id: Long = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    group_name: str
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int = 16
    retry_queue_nums: Int = 1
    which_broker_when_consume_slowly: Long = 1


class SubscriptionGroupWrapper(Table, frozen=True, kw_only=True):
    """All groups of a broker: response of 201."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


class GetConsumerListByGroupResponseBody(Body, frozen=True, kw_only=True):
    """Response of 38.

    An id that is connected twice is listed twice (broker-requests#40).
    """

    consumer_id_list: list[str] = []


class Connection(Body, frozen=True, kw_only=True):
    """One client of a group."""

    client_addr: str = ""
    client_id: str = ""
    language: str = "JAVA"
    version: Int = 0


class ProducerConnection(Body, frozen=True, kw_only=True):
    """Response of 204."""

    connection_set: list[Connection] = []


class ConsumerConnection(Table, frozen=True, kw_only=True):
    """Response of 203."""

    connection_set: list[Connection] = []
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, SubscriptionData] = {}


class ProducerInfo(Body, frozen=True, kw_only=True):
    """One connection of a producer group.

    The address has a slash before it: `/127.0.0.1:59612`.
    """

    client_id: str
    language: str = "JAVA"
    last_update_timestamp: Long = 0
    remote_ip: str = msgspec.field(name="remoteIP", default="")
    version: Int = 0


class ProducerTableInfo(Table, frozen=True, kw_only=True):
    """Response of 328, by producer group."""

    data: dict[str, list[ProducerInfo]] = {}
