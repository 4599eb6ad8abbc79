"""Message queues: their names, locks and entries.

Sources: broker-requests sections 0.3, 3.10, 6.2.
"""

import msgspec

from rmqlab.remoting.bodies.heartbeat import SubscriptionData
from rmqlab.remoting.body import Body
from rmqlab.remoting.header import Int, Long


class MessageQueue(Body, frozen=True, kw_only=True):
    """One queue of a topic at one broker name. Also the key of many maps."""

    broker_name: str
    queue_id: Int
    topic: str


class LockBatchRequestBody(Body, frozen=True, kw_only=True):
    """Request of 41."""

    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = []


class UnlockBatchRequestBody(Body, frozen=True, kw_only=True):
    """Request of 42."""

    client_id: str | None = None
    consumer_group: str
    mq_set: list[MessageQueue] = []


class LockBatchResponseBody(Body, frozen=True, kw_only=True):
    """Response of 41: the locks that the client now holds, possibly none.

    Source: broker-requests#46.
    """

    lock_ok_mq_set: list[MessageQueue] = msgspec.field(name="lockOKMQSet", default_factory=list)


class ConsumeQueueData(Body, frozen=True, kw_only=True):
    """One entry of a consume queue. `eval` is true if a consumer's filter accepts it."""

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Long = 0
    physic_size: Int = 0
    tags_code: Long = 0


class QueryConsumeQueueResponseBody(Body, frozen=True, kw_only=True):
    """Response of 321.

    The filter's members are there only where the request names a consumer group.
    """

    filter_data: str | None = None
    max_queue_index: Long = 0
    min_queue_index: Long = 0
    queue_data: list[ConsumeQueueData] | None = None
    subscription_data: SubscriptionData | None = None
