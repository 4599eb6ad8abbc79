"""Runtime info: tables of keys and values, broker statistics, consumer state.

Sources: broker-requests sections 6.3 to 6.6.
"""

import enum
from typing import Any

import msgspec

from rmqlab.remoting.bodies.heartbeat import SubscriptionData
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.body import Body, Table, name_in
from rmqlab.remoting.header import Long


class KVTable(Body, frozen=True, kw_only=True):
    """Response of 28 and 219, and of 103 (order topics)."""

    table: dict[str, str] = {}


class BrokerStatsItem(Body, frozen=True, kw_only=True):
    """A sum over a time span, per second, and per call."""

    avgpt: float = 0.0
    sum: Long = 0
    tps: float = 0.0


class BrokerStatsData(Body, frozen=True, kw_only=True):
    """Response of 315."""

    stats_day: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_minute: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)


class ProcessQueueInfo(Body, frozen=True, kw_only=True):
    """One queue inside a push consumer. Timestamps in milliseconds."""

    cached_msg_count: Long = 0
    cached_msg_max_offset: Long = 0
    cached_msg_min_offset: Long = 0
    cached_msg_size_in_mib: Long = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    commit_offset: Long = 0
    dropped: bool = msgspec.field(name="droped", default=False)
    last_consume_timestamp: Long = 0
    last_lock_timestamp: Long = 0
    last_pull_timestamp: Long = 0
    locked: bool = False
    transaction_msg_count: Long = 0
    transaction_msg_max_offset: Long = 0
    transaction_msg_min_offset: Long = 0
    try_unlock_times: Long = 0


class ConsumeStatus(Body, frozen=True, kw_only=True):
    """Rates of one topic inside a push consumer; times in milliseconds."""

    consume_failed_msgs: Long = 0
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)


class ConsumerRunningInfo(Table, frozen=True, kw_only=True):
    """Response of 307.

    Tools need the properties PROP_CONSUME_TYPE, _CONSUMEORDERLY and _CONSUMER_START_TIMESTAMP.
    """

    jstack: str | None = None
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    properties: dict[str, str] = {}
    status_table: dict[str, ConsumeStatus] = {}
    subscription_set: list[SubscriptionData] = []


class CMResult(enum.StrEnum):
    """A listener's result for one message.

    Positions in this list are the ordinals that Go clients send.
    """

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Body, frozen=True, kw_only=True):
    """Response of 309. A result of None means an unknown result."""

    auto_commit: bool = True
    consume_result: CMResult | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: Long = 0

    @classmethod
    def normalized(cls, value: Any) -> Any:
        """Convert an ordinal to its name."""
        if isinstance(value, dict) and "consumeResult" in value:
            value["consumeResult"] = name_in([*CMResult], value["consumeResult"])
        return value
