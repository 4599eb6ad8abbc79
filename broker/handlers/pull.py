"""PULL_MESSAGE and LITE_PULL_MESSAGE (class PullMessageProcessor).

A pull without messages that may wait is held until an arrival or the sweep wakes it; then it is replied to, with
messages or without. Sources: broker-requests section 2, store-and-ha section 6.
"""

from collections.abc import Mapping
from typing import Final

import attrs
import msgspec

from rmqlab.broker.filter.message_filter import MessageFilter
from rmqlab.broker.handlers.offset import commit_offset
from rmqlab.broker.handlers.pullfilter import filter_of_pull
from rmqlab.broker.state import Broker
from rmqlab.broker.tables.topics import PERM_READ
from rmqlab.broker.waits.held_pulls import HeldPull
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig
from rmqlab.remoting.bodies.offset import OffsetMovedEvent
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codec import ReplyHead
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.frame import JSON
from rmqlab.remoting.header import HeaderError, java_long_sum
from rmqlab.remoting.headers.pull import COMMIT_OFFSET, SUSPEND, PullMessageRequestHeader, PullMessageResponseHeader
from rmqlab.remoting.message import PROPERTY_DELAY, PROPERTY_KEYS, PROPERTY_TAGS, NewMessage, format_properties
from rmqlab.remoting.names import OFFSET_MOVED_EVENT
from rmqlab.runtime import stopwatch
from rmqlab.runtime.net.dispatch import OVERLOAD, Refusal, Reply, Request, Route
from rmqlab.store.results import GetResult, GetStatus

CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,  # PULL_NOT_FOUND for offset 0
    GetStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_OFFSET_MOVED,  # likewise
}


_FOUND: Final = ReplyHead(
    {}, [field.encode_name for field in msgspec.structs.fields(PullMessageResponseHeader)], GetStatus.FOUND.name
)
_FROM_ENTRIES = (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING)
"""Statuses of pulls that found entries in their queue."""
_NO_QUEUE = (GetStatus.NO_MESSAGE_IN_QUEUE, GetStatus.NO_MATCHED_LOGIC_QUEUE)


def pull_message(broker: Broker, header: PullMessageRequestHeader, request: Request) -> Reply | None:
    """Reply with messages, or hold the pull until one arrives."""
    try:
        group = _check_pull(broker, header)
        message_filter = filter_of_pull(broker, header)
    except Refusal as exc:
        return Reply(exc.code, {}, remark=str(exc))
    result = _read(broker, header, message_filter)
    if header.sys_flag & COMMIT_OFFSET and not broker.is_slave:
        if header.commit_offset is None:
            raise HeaderError("commitOffset is missing, but the sysFlag asks for a commit")
        place = (header.consumer_group, header.topic, header.queue_id)
        commit_offset(broker, place, header.commit_offset, request.channel.peer)
    code, next_offset = _outcome(broker, header, result)
    if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND:
        return _hold(broker, header, request, message_filter)
    return _reply(broker, header, group, result, code, next_offset)


def _hold(
    broker: Broker, header: PullMessageRequestHeader, request: Request, message_filter: MessageFilter
) -> Reply | None:
    """Hold a pull, or refuse it if too many are held.

    RocketMQ refuses likewise when its pull thread pool is full. Either reply is in JSON, also to a binary request: it
    is written outside of RocketMQ's dispatcher, which sets the codec (PullMessageProcessor.executeRequestWhenWakeup).
    """
    request.command.serialize_type = JSON
    deadline = broker.now() + _hold_millis(broker, header) / 1000
    size = len(header.topic) + len(header.consumer_group) + len(header.subscription or "")
    held = HeldPull(request, header, header.queue_offset, deadline, _Waker(broker), message_filter, size)
    if broker.hold.add(header.topic, header.queue_id, held):
        request.drop_content()
        return None
    return Reply(ResponseCode.SYSTEM_BUSY, {}, remark=OVERLOAD)


def _hold_millis(broker: Broker, header: PullMessageRequestHeader) -> int:
    """Return how long a pull may be held, in ms.

    A time that would end after 2^63 has ended, as in Java (PullRequestHoldService.notifyMessageArriving).
    """
    config, now = broker.config, broker.now_millis()
    millis = (header.suspend_timeout_millis or 0) if config.long_polling_enable else config.short_polling_time_mills
    return java_long_sum(now + millis) - now


@attrs.frozen(eq=False)
class _Waker:
    """The part of the broker that its held pulls use (`PullWaker`)."""

    broker: Broker

    def wake(self, pull: HeldPull) -> None:
        """Run a held pull again and reply, with messages or without."""
        try:
            pull.request.reply(_woken(self.broker, pull))
        except Exception as exc:  # noqa: BLE001 - a boundary: this runs within the producer's request, or in a timer
            self.broker.errors.caught("held pull", exc, pull.request.channel.peer)
            pull.request.reply(Reply(ResponseCode.SYSTEM_ERROR, {}, remark=f"{type(exc).__name__}: {exc}"))

    def properties_at(self, topic: str, queue_id: int, queue_offset: int) -> Mapping[str, str] | None:
        """Return the properties of a stored message, for SQL92 filters."""
        return self.broker.properties_at(topic, queue_id, queue_offset)


def _woken(broker: Broker, pull: HeldPull) -> Reply:
    """Process a held pull once more, with all checks.

    Permissions and subscriptions may have changed. Source: PullMessageProcessor.executeRequestWhenWakeup. It is not
    held again, and commits no offset again.
    """
    header = pull.header
    try:
        group = _check_pull(broker, header)
        message_filter = filter_of_pull(broker, header)
        result = _read(broker, header, message_filter)
    except Refusal as exc:
        return Reply(exc.code, {}, remark=str(exc))
    except HeaderError as exc:
        return Reply(ResponseCode.SYSTEM_ERROR, remark=str(exc))
    return _reply(broker, header, group, result, *_outcome(broker, header, result))


def _check_pull(broker: Broker, header: PullMessageRequestHeader) -> SubscriptionGroupConfig:
    """Do the checks in RocketMQ's order (broker-requests section 2.2)."""
    if not broker.config.broker_permission & PERM_READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"broker {broker.config.broker_name} may not be read")
    group = broker.subscriptions.require(header.consumer_group)
    if not group.consume_enable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"group {header.consumer_group} may not consume")
    if header.sys_flag & SUSPEND and header.suspend_timeout_millis is None:
        raise HeaderError("suspendTimeoutMillis is missing, but the sysFlag allows to hold the pull")
    topic = broker.topics.require(header.topic)
    if not topic.perm & PERM_READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"topic {header.topic} may not be read")
    if not 0 <= header.queue_id < topic.read_queue_nums:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"queue {header.queue_id} of topic {header.topic}: it has {topic.read_queue_nums} to read",
        )
    return group


def _read(broker: Broker, header: PullMessageRequestHeader, message_filter: MessageFilter) -> GetResult:
    """Return the messages of a pull.

    HeaderError for a negative number of messages where the queue has entries to read, as in RocketMQ, which makes no
    list of this size.
    """
    began = stopwatch.wall()
    result = broker.store.get_message(
        header.topic,
        header.queue_id,
        header.queue_offset,
        max(header.max_msg_nums, 1),
        message_filter.by_code,
        property_filter=message_filter.by_properties,
        max_examined=message_filter.max_examined,
    )
    if header.max_msg_nums < 0 and result.status in _FROM_ENTRIES:
        raise HeaderError(f"maxMsgNums is {header.max_msg_nums}")
    broker.stats.get_times.count(stopwatch.wall() - began)
    if result.status is not GetStatus.FOUND:
        broker.stats.count_miss()
    return result


def _outcome(broker: Broker, header: PullMessageRequestHeader, result: GetResult) -> tuple[int, int]:
    """Return response code and next offset.

    On a slave, an offset out of range is to be retried (store-ha#65).
    """
    code = CODES[result.status]
    if result.status in _NO_QUEUE and header.queue_offset == 0:
        code = ResponseCode.PULL_NOT_FOUND
    if broker.is_slave and not broker.store.config.offset_check_in_slave:
        if code == ResponseCode.PULL_OFFSET_MOVED:
            return ResponseCode.PULL_RETRY_IMMEDIATELY, header.queue_offset
        if result.status is GetStatus.OFFSET_FOUND_NULL:
            return code, header.queue_offset
    return code, result.next_begin_offset


def _reply(
    broker: Broker,
    header: PullMessageRequestHeader,
    group: SubscriptionGroupConfig,
    result: GetResult,
    code: int,
    next_offset: int,
) -> Reply:
    """Return the reply to a pull that is not held; count its messages.

    It suggests a broker id for the next pull. An event records an offset out of range.
    """
    suggested = 0
    if broker.config.slave_read_enable:
        suggested = group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id
    elif code == ResponseCode.PULL_RETRY_IMMEDIATELY and CODES[result.status] == ResponseCode.PULL_OFFSET_MOVED:
        suggested = group.broker_id
    fields = PullMessageResponseHeader(
        suggest_which_broker_id=suggested,
        next_begin_offset=next_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
    )
    if code == ResponseCode.PULL_OFFSET_MOVED:
        _note_offset_moved(broker, header, next_offset)
    if code != ResponseCode.SUCCESS:
        return Reply(code, fields, remark=result.status.name)
    broker.stats.count_get(header.topic, header.consumer_group, result.count, result.size)
    return Reply(code, fields, body=result.buffers, remark=result.status.name, head=_FOUND)


def _note_offset_moved(broker: Broker, header: PullMessageRequestHeader, next_offset: int) -> None:
    """Store an event about an out-of-range consumer.

    `mqadmin startMonitoring` reads it (store-and-ha section 6.3).
    """
    group = header.consumer_group
    queue = MessageQueue(broker_name=broker.config.broker_name, queue_id=header.queue_id, topic=header.topic)
    event = OffsetMovedEvent(
        consumer_group=group, message_queue=queue, offset_new=next_offset, offset_request=header.queue_offset
    )
    properties = {PROPERTY_KEYS: group, PROPERTY_TAGS: group, PROPERTY_DELAY: "0"}
    host = (broker.config.broker_ip1, broker.config.listen_port)
    message = NewMessage(
        topic=OFFSET_MOVED_EVENT,
        queue_id=0,
        body=event.encode(),
        born_host=host,
        store_host=host,
        born_timestamp=broker.now_millis(),
        properties=format_properties(properties),
    )
    broker.put_own(message)


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.PULL_MESSAGE, PullMessageRequestHeader, pull_message),
]

ROUTES_OF_5X: list[Route[Broker]] = [
    Route(RequestCode.LITE_PULL_MESSAGE, PullMessageRequestHeader, pull_message),
]
