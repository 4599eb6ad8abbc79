"""Headers of sends, replies, returned messages and transactions.

The replies are those to requesters, the returned messages those handed back by consumers. Sources: broker-requests
sections 1.1, 1.7, 1.10, 3.11, 4.2, 4.4.
"""

from typing import ClassVar, Protocol

import msgspec

from rmqlab.remoting.header import FALSE, Header, Int, JavaBoolean, Long


class SendMessageRequestHeader(Header, frozen=True, kw_only=True):
    """10, 324, with names. The message itself is the body, or several are (`batch`).

    Missing fields are detected by the code that needs them: after the checks of topic and queue.
    """

    producer_group: str | None = None
    topic: str | None = None
    default_topic: str | None = None
    """Template of a topic that does not exist yet."""
    default_topic_queue_nums: Int | None = None
    queue_id: Int | None = None
    """Negative: the broker chooses."""
    sys_flag: Int | None = None
    born_timestamp: Long | None = None
    flag: Int | None = None
    properties: str | None = None
    reconsume_times: Int = 0
    unit_mode: JavaBoolean = FALSE
    max_reconsume_times: Int | None = None
    batch: JavaBoolean = FALSE


class CompleteSend(Protocol):
    """The header of a send with all required fields.

    `broker.handlers.sendchecks.check_complete` returns it.
    """

    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def born_timestamp(self) -> int: ...
    @property
    def flag(self) -> int: ...
    @property
    def sys_flag(self) -> int | None: ...
    @property
    def properties(self) -> str | None: ...
    @property
    def reconsume_times(self) -> int: ...
    @property
    def max_reconsume_times(self) -> int | None: ...


class SendMessageRequestHeaderV2(SendMessageRequestHeader, frozen=True, kw_only=True):
    """310, 320, 325: the same with letters."""

    is_strict: ClassVar[bool] = True

    producer_group: str | None = msgspec.field(name="a", default=None)
    topic: str | None = msgspec.field(name="b", default=None)
    default_topic: str | None = msgspec.field(name="c", default=None)
    default_topic_queue_nums: Int | None = msgspec.field(name="d", default=None)
    queue_id: Int | None = msgspec.field(name="e", default=None)
    sys_flag: Int | None = msgspec.field(name="f", default=None)
    born_timestamp: Long | None = msgspec.field(name="g", default=None)
    flag: Int | None = msgspec.field(name="h", default=None)
    properties: str | None = msgspec.field(name="i", default=None)
    reconsume_times: Int = msgspec.field(name="j", default=0)
    unit_mode: JavaBoolean = msgspec.field(name="k", default=FALSE)
    max_reconsume_times: Int | None = msgspec.field(name="l", default=None)
    batch: JavaBoolean = msgspec.field(name="m", default=FALSE)


class SendMessageResponseHeader(Header, frozen=True, kw_only=True):
    """10, 310, 320, 324, 325.

    A failed send has only the last two (broker-requests#20).
    """

    is_strict: ClassVar[bool] = True

    msg_id: str | None = None
    """Broker address and commit log offset in hex; of a batch all ids, with commas."""
    queue_id: int | None = None
    queue_offset: int | None = None
    """Queue offset of the message, or of the first message of a batch."""
    transaction_id: str | None = None
    region: str | None = msgspec.field(name="MSG_REGION", default=None)
    trace_on: JavaBoolean | None = msgspec.field(name="TRACE_ON", default=None)


class ReplyMessageRequestHeader(Header, frozen=True, kw_only=True):
    """326: a reply on its way from the broker to the requester.

    The body is the reply's.
    """

    producer_group: str
    topic: str
    default_topic: str | None = None
    default_topic_queue_nums: Int | None = None
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: JavaBoolean = FALSE
    born_host: str | None = None
    store_host: str | None = None
    store_timestamp: Long | None = None


class ConsumerSendMsgBackRequestHeader(Header, frozen=True, kw_only=True):
    """36: a message that a consumer could not handle."""

    offset: Long
    """Commit log offset."""
    group: str
    delay_level: Int
    """0: by reconsume times; negative: to the dead-letter queue."""
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: JavaBoolean = FALSE
    max_reconsume_times: Int | None = None


class EndTransactionRequestHeader(Header, frozen=True, kw_only=True):
    """37."""

    producer_group: str | None = None
    tran_state_table_offset: Long | None = None
    """Queue offset in the half topic. Needed only to resolve the transaction, like `commit_log_offset`."""
    commit_log_offset: Long | None = None
    commit_or_rollback: Int | None = None
    """8 commit, 12 rollback, 0 unknown."""
    from_transaction_check: JavaBoolean = FALSE
    msg_id: str | None = None
    transaction_id: str | None = None


class CheckTransactionStateRequestHeader(Header, frozen=True, kw_only=True):
    """39: a broker asks a producer. The body is the half message."""

    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
