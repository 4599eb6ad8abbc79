"""Half messages: decisions about each, and the records that resolve them.

Pure: no clock, no I/O.

Sources: store-and-ha section 7.1, broker-requests section 4; classes TransactionalMessageServiceImpl,
TransactionalMessageBridge, EndTransactionProcessor.
"""

import enum
import re
from typing import Final

import attrs

from rmqlab.broker.deferred.message_copy import copy_of, destination
from rmqlab.remoting import names
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.header import java_long, java_long_sum, java_number
from rmqlab.remoting.headers.send import CheckTransactionStateRequestHeader
from rmqlab.remoting.message import (
    PROPERTY_CHECK_IMMUNITY_TIME,
    PROPERTY_TAGS,
    PROPERTY_TRAN_PREPARED_QUEUE_OFFSET,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_UNIQ_KEY,
    PROPERTY_WAIT,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    Host,
    NewMessage,
    RecordError,
    StoredMessage,
    encode_message,
    format_properties,
    offset_message_id,
)

HALF_QUEUE = 0
"""The only queue of the half topic, and of the op topic."""
OP_TAG = "d"
_OFFSET: Final = re.compile(rb"[0-9]{1,19}")
MILLIS_PER_HOUR = 3_600_000


class CheckAction(enum.Enum):
    """The action of a check on an unresolved half message."""

    CHECK = "ask its producer for the state of its transaction"
    WAIT = "too young, as are all half messages behind it"
    POSTPONE = "its immunity time is not over: append it again at the end of the queue"
    DISCARD = "checked too often, or too old"


@attrs.frozen
class CheckLimits:
    """Times and limits of checks. Milliseconds, except the count."""

    timeout: int
    check_max: int
    reserved_time: int


def check_action(half: StoredMessage, limits: CheckLimits, now: int, began: int) -> CheckAction:
    """Decide by age and by the number of checks (store-ha#72).

    An age below 0 comes from another clock: check. But a message that was stored after the round `began` waits: if the
    broker's clock was set back, until it has reached that time again (TransactionalMessageServiceImpl.check).
    """
    age = java_long_sum(now - half.born_timestamp)
    if _is_checked_out(half, limits.check_max) or age > limits.reserved_time:
        return CheckAction.DISCARD
    if half.store_timestamp >= began:
        return CheckAction.WAIT
    if PROPERTY_CHECK_IMMUNITY_TIME in half.properties:
        return CheckAction.POSTPONE if age < _immunity_millis(half, limits) else CheckAction.CHECK
    return CheckAction.WAIT if 0 <= age < limits.timeout else CheckAction.CHECK


def check_times(half: StoredMessage) -> int:
    """Number of checks so far; -1 if the property is invalid.

    Source: TransactionalMessageServiceImpl.needDiscard. A postponement counts as a check, and so does being too old,
    because RocketMQ counts before it decides.
    """
    try:
        return java_number(half.properties[PROPERTY_TRANSACTION_CHECK_TIMES])
    except KeyError:
        return 0
    except ValueError:
        return -1


def _is_checked_out(half: StoredMessage, check_max: int) -> bool:
    """True after `check_max` checks.

    A half message without a count is checked once, also if `check_max` is 0 (needDiscard).
    """
    return PROPERTY_TRANSACTION_CHECK_TIMES in half.properties and check_times(half) >= check_max


def _counted(half: StoredMessage) -> dict[str, str]:
    """The properties of a half message with one more check."""
    return half.properties | {PROPERTY_TRANSACTION_CHECK_TIMES: str(check_times(half) + 1)}


def _immunity_millis(half: StoredMessage, limits: CheckLimits) -> int:
    seconds = _number(half, PROPERTY_CHECK_IMMUNITY_TIME, -1)
    return limits.timeout if seconds == -1 else java_long_sum(seconds * 1000)


def first_queue_offset(half: StoredMessage) -> int:
    """Return the first queue offset of a postponed message.

    Its producer resolves the message by this offset.
    """
    return _number(half, PROPERTY_TRAN_PREPARED_QUEUE_OFFSET, half.queue_offset)


def _number(half: StoredMessage, name: str, otherwise: int) -> int:
    """A property that is a 64-bit number.

    `otherwise` if it is missing or not a number.
    """
    try:
        return java_long(half.properties[name])
    except (KeyError, ValueError):
        return otherwise


# ---- records ---------------------------------------------------------------------------------------------


def committed(half: StoredMessage) -> NewMessage:
    """Return the committed message.

    It carries the offset of its half message; its properties still mark it as one.

    RecordError if its properties lack the real topic or queue.
    """
    topic, queue_id = destination(half)
    message = copy_of(half, topic, queue_id)
    message.sys_flag = message.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
    message.prepared_transaction_offset = half.physical_offset
    return message


def op_record(half_queue_offset: int, store_host: Host, now: int) -> NewMessage:
    """Return the record that marks a half message as resolved, committed or not."""
    return NewMessage(
        topic=names.OP_HALF_TOPIC,
        queue_id=HALF_QUEUE,
        body=str(half_queue_offset).encode(),
        born_host=store_host,
        store_host=store_host,
        born_timestamp=now,
        properties=format_properties({PROPERTY_WAIT: "true", PROPERTY_TAGS: OP_TAG}),
    )


def renewed(half: StoredMessage) -> NewMessage:
    """Return a copy of the half message with one more check.

    The copy has flag 0 and reconsume times 0, because TransactionalMessageBridge.renewHalfMessageInner drops both.
    """
    return _renewed_copy(half, _counted(half))


def postponed(half: StoredMessage) -> NewMessage:
    """Return a copy as `renewed` makes it, with its first queue offset.

    The copy has WAIT=false. Source: TransactionalMessageBridge.renewImmunityHalfMessageInner.
    """
    first = {PROPERTY_WAIT: "false", PROPERTY_TRAN_PREPARED_QUEUE_OFFSET: str(first_queue_offset(half))}
    return _renewed_copy(half, _counted(half) | first)


def _renewed_copy(half: StoredMessage, properties: dict[str, str]) -> NewMessage:
    copy = copy_of(half, names.HALF_TOPIC, HALF_QUEUE, properties=properties)
    copy.flag = copy.reconsume_times = 0
    return copy


def discarded_copy(half: StoredMessage, check_max: int) -> NewMessage:
    """The half message as it is kept for an operator (request 323 brings it back).

    One that is discarded by its age, not by its checks, has one more check.
    """
    if _is_checked_out(half, check_max):
        return put_aside(half)
    return copy_of(half, names.TRANS_CHECK_MAX_TIME_TOPIC, 0, properties=_counted(half))


def put_aside(half: StoredMessage) -> NewMessage:
    """Return the half message as `discarded_copy` does, without counting a check."""
    return copy_of(half, names.TRANS_CHECK_MAX_TIME_TOPIC, 0)


def resumed(half: StoredMessage) -> NewMessage:
    """Return a given-up half message for the half queue.

    Its count of checks begins at 0 again.
    """
    properties = half.properties | {PROPERTY_TRANSACTION_CHECK_TIMES: "0"}
    return copy_of(half, names.HALF_TOPIC, HALF_QUEUE, properties=properties)


def check_request(half: StoredMessage, queue_offset: int, physical_offset: int) -> Command:
    """Return the check request for a half message stored again at these offsets.

    Source: broker-requests section 4.4. The body is the message as its producer sent it, with the new offsets. Raises
    ValueError or struct.error if its properties do not fit into the request: then no producer can be asked.
    """
    topic, queue_id = destination(half)
    unique_key = half.properties.get(PROPERTY_UNIQ_KEY)
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=queue_offset,
        commit_log_offset=physical_offset,
        msg_id=unique_key,
        transaction_id=unique_key,
        offset_msg_id=offset_message_id(*half.store_host, physical_offset),
    )
    properties = _counted(half) | {PROPERTY_WAIT: "false"}
    shown = attrs.evolve(
        half,
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        properties=properties,
        properties_text=format_properties(properties),
    )
    return request(RequestCode.CHECK_TRANSACTION_STATE, header, encode_message(shown))


# ---- op records ------------------------------------------------------------------------------------------


def resolved_offset(record: StoredMessage, half_end: int) -> int:
    """Return the offset in the half queue that an op record resolves.

    RecordError if the record is not an op record.

    Any client can commit a message into the op topic, so tag and body are checked (TransactionalMessageServiceImpl
    checks the tag). A real op record follows its half message in the log, so its offset is below `half_end`, the end of
    the half queue; one beyond it would be read again in every round.
    """
    tag = record.properties.get(PROPERTY_TAGS)
    if tag != OP_TAG:
        raise RecordError(f"an op record with tag {(tag or '')[:20]!r}, expected {OP_TAG!r}")
    if not _OFFSET.fullmatch(record.body):
        raise RecordError(f"an op record with body {record.body[:20]!r}, expected an offset")
    offset = int(record.body)
    if offset >= half_end:
        raise RecordError(f"an op record for half message {offset}, the half queue ends at {half_end}")
    return offset


@attrs.define(eq=False)
class OpRecords:
    """The op records that one check has read.

    They record which half messages are resolved, and which op records are used up.
    """

    progress: int
    """The first op record that is not used up: the group's offset in the op queue."""
    next_offset: int = attrs.field(init=False)
    """The first that was not read."""
    _resolved: dict[int, int] = attrs.field(factory=dict, init=False)  # half queue offset -> op queue offset
    _used: set[int] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.next_offset = self.progress

    def add(self, half_queue_offset: int | None) -> None:
        """Read the next op record. None if it resolves no half message ahead."""
        if half_queue_offset is None:
            self._used.add(self.next_offset)
        else:
            self._resolved[half_queue_offset] = self.next_offset
        self.next_offset += 1
        self._advance()

    def take(self, half_queue_offset: int) -> bool:
        """Return True if this half message is resolved, and use up its op record."""
        op_offset = self._resolved.pop(half_queue_offset, None)
        if op_offset is None:
            return False
        self._used.add(op_offset)
        self._advance()
        return True

    def _advance(self) -> None:
        while self.progress in self._used:
            self._used.remove(self.progress)
            self.progress += 1
