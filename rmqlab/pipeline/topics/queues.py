"""Requests about queues to members of a broker group: routes, bounds, messages.

If the master is unavailable its slaves serve reads. They have at most the master's messages. Names of topics and groups
are the application's: the client adds its namespace on the wire.
"""

import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TypeVar

import attrs
import trio

from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import FAILURES, Client
from rmqlab.client.limited import for_each
from rmqlab.client.routes import subscribe_queues
from rmqlab.pipeline.topics.topicoffsets import QueueName
from rmqlab.remoting.bodies.route import TopicRouteData
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.header import HeaderError, header_to_fields
from rmqlab.remoting.headers.offset import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
)
from rmqlab.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rmqlab.remoting.names import MASTER_ID
from rmqlab.runtime.net.remoting_errors import ConnectError, RequestTimeoutError
from rmqlab.store.config import QUEUE_ENTRY_SIZE

T = TypeVar("T")
_SUBSCRIPTION = 4  # of a pull's sysFlag: the request contains the subscription
_FOUND = int(ResponseCode.SUCCESS)
_PASSING = frozenset({int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.SERVICE_NOT_AVAILABLE)})
"""Errors of a broker that is starting, stopping or overloaded."""
_PULL_ANSWERS = frozenset(
    map(
        int,
        (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ),
    )
)

BOUNDS_AT_ONCE = 500
"""Queues of a broker whose bounds are requested at a time."""


@attrs.define
class _Heard:
    """Which addresses respond while bounds of many queues are requested."""

    responding: set[str] = attrs.field(factory=set)
    late: set[str] = attrs.field(factory=set)

    def is_silent(self, address: str) -> bool:
        return address in self.late and address not in self.responding


_HEARD: ContextVar[_Heard] = ContextVar("_HEARD")
NO_QUEUE = -1
"""First offset, and offset at a time, of a queue that a broker does not have."""
MAX_OFFSET = 2**63 // QUEUE_ENTRY_SIZE
"""Maximum end of a queue: brokers count the bytes of its entries in 64 bits."""

Members = Mapping[str, Mapping[int, str]]
"""Addresses by broker name and broker id."""


class UnreachableError(Exception):
    """No member of a broker's group served the request.

    The reason contains the error of each member.
    """

    def __init__(self, queue: QueueName, reason: str, *, is_refused: bool) -> None:
        super().__init__(f"{queue}: {reason}")
        self.reason = reason
        self.is_refused = is_refused
        """True if a member responded with a permanent error."""


@attrs.frozen
class Topic:
    """A topic's queues and brokers, from its route."""

    queues: tuple[QueueName, ...]
    members: Members


@attrs.frozen
class Bound:
    """A bound of a queue, and the member of the group that returned it."""

    offset: int
    broker_id: int

    @property
    def is_masters(self) -> bool:
        return self.broker_id == MASTER_ID


@attrs.frozen(kw_only=True)
class Filter:
    """Filter of a queue's messages.

    Brokers apply it; they compare only hashes of tags.
    """

    tags: tuple[str, ...] = ()
    sql: str = ""

    @property
    def is_any(self) -> bool:
        return not self.tags and not self.sql

    @property
    def expression(self) -> str:
        return self.sql or " || ".join(self.tags) or "*"

    @property
    def expression_type(self) -> str:
        return "SQL92" if self.sql else "TAG"


@attrs.frozen(kw_only=True)
class Reading:
    """How to read. Seconds are those of the process's clock."""

    read_from: str = "suggested"
    message_filter: Filter = attrs.field(factory=Filter)
    group: str = "rmqlab-spark"
    seconds: float = 120.0
    """How long to look for a member that has the messages."""
    request_seconds: float = 5.0
    pull_batch_size: int = 1024
    """Messages requested by one pull; a broker returns up to its own limit, 32 or 8 by default."""


@attrs.frozen
class Pulled:
    """The response to a pull. `body` contains the concatenated records, or is empty."""

    code: int
    next_offset: int
    suggested_broker_id: int
    body: bytes

    @property
    def is_found(self) -> bool:
        return self.code == _FOUND


async def topic_of(client: Client, topic: str) -> Topic:
    """Return a topic's queues and brokers. Raises the errors of Client.fetch_route."""
    route = await client.fetch_route(client.named(topic))
    queues = tuple(QueueName(topic, queue.broker_name, queue.queue_id) for queue in subscribe_queues(topic, route))
    return Topic(queues, members_of(route))


def members_of(route: TopicRouteData) -> dict[str, dict[int, str]]:
    return {data.broker_name: dict(data.broker_addrs) for data in route.broker_datas}


def merged(known: Members, fresh: Members) -> dict[str, dict[int, str]]:
    """Merge a fresh route into known ones.

    A broker name that it lacks keeps its old addresses.
    """
    return {name: dict(addresses) for name, addresses in {**known, **fresh}.items()}


# ---- bounds ----------------------------------------------------------------------------------------------


async def max_offset(client: Client, queue: QueueName, members: Mapping[int, str]) -> Bound:
    """Return the offset of the next message: from the master, or else from a slave.

    Raises UnreachableError.
    """
    header = GetMaxOffsetRequestHeader(topic=client.named(queue.topic), queue_id=queue.queue_id)

    async def ask(address: str) -> int:
        response = await client.ask(address, RequestCode.GET_MAX_OFFSET, header)
        return checked_offset(response.header(GetMaxOffsetResponseHeader).offset, least=0)

    return Bound(*await in_order(queue, members, ask))


async def min_offset(client: Client, queue: QueueName, members: Mapping[int, str]) -> Bound:
    """Return the first available offset. Raises UnreachableError."""
    header = GetMinOffsetRequestHeader(topic=client.named(queue.topic), queue_id=queue.queue_id)

    async def ask(address: str) -> int:
        response = await client.ask(address, RequestCode.GET_MIN_OFFSET, header)
        return max(0, checked_offset(response.header(GetMinOffsetResponseHeader).offset))

    return Bound(*await in_order(queue, members, ask))


def checked_offset(offset: int | None, *, least: int = NO_QUEUE) -> int:
    """Return the offset of a response. HeaderError if no queue can have it."""
    if offset is None or not least <= offset <= MAX_OFFSET:
        said = "no offset" if offset is None else f"offset {offset}"
        raise HeaderError(f"the response has {said}: expected {least} to {MAX_OFFSET}")
    return offset


async def in_order(queue: QueueName, members: Mapping[int, str], ask: Callable[[str], Awaitable[T]]) -> tuple[T, int]:
    """Return the first member's result for which `ask` raises no error, and its id.

    The master is asked first, unless it was silent for all other queues (see `for_each_queue`). Raises
    UnreachableError.
    """
    failures, is_refused, heard = [], False, _HEARD.get(None) or _Heard()
    for broker_id in sorted(members, key=lambda broker_id: (heard.is_silent(members[broker_id]), broker_id)):
        try:
            result = await ask(members[broker_id])
        except FAILURES as exc:
            if isinstance(exc, ConnectError | RequestTimeoutError):
                heard.late.add(members[broker_id])
            failures.append(f"broker id {broker_id} at {members[broker_id]}: {exc}")
            is_refused |= isinstance(exc, BrokerError) and exc.code not in _PASSING
        else:
            heard.responding.add(members[broker_id])
            return result, broker_id
    reason = f"no member responds ({'; '.join(failures)})" if failures else "no route has this broker"
    raise UnreachableError(queue, reason, is_refused=is_refused)


# ---- messages --------------------------------------------------------------------------------------------


async def pull(
    client: Client,
    address: str,
    queue: QueueName,
    offset: int,
    *,
    count: int,
    reading: Reading | None = None,
) -> Pulled:
    """Pull messages from one broker without long polling.

    Raises the errors of Client.ask.
    """
    reading = reading or Reading()
    command = _pull_command(client, queue, offset, count, reading)
    response = await client.remoting.request(address, command, reading.request_seconds)
    return _pulled(address, offset, response)


async def pull_all(
    client: Client, address: str, queue: QueueName, offsets: Sequence[int], *, count: int, end: int, reading: Reading
) -> list[Pulled | None]:
    """Pull messages from several offsets at once.

    From each offset `count` messages, but none from `end` on. The result is None for each pull that failed, or whose
    response is invalid. Raises ConnectError.
    """
    commands = [_pull_command(client, queue, offset, min(count, end - offset), reading) for offset in offsets]
    responses = await client.remoting.request_all(address, commands, reading.request_seconds)

    def pulled(offset: int, response: Command | None) -> Pulled | None:
        with contextlib.suppress(BrokerError, HeaderError):
            return None if response is None else _pulled(address, offset, response)
        return None

    return [pulled(offset, response) for offset, response in zip(offsets, responses, strict=True)]


def _pull_command(client: Client, queue: QueueName, offset: int, count: int, reading: Reading) -> Command:
    fields = _pull_fields(client.named(reading.group), client.named(queue.topic), reading.message_filter)
    of_this_pull = {"queueId": str(queue.queue_id), "queueOffset": str(offset), "maxMsgNums": str(count)}
    return client.command(RequestCode.PULL_MESSAGE, fields | of_this_pull)


@functools.lru_cache(maxsize=64)
def _pull_fields(group: str, topic: str, wanted: Filter) -> dict[str, str]:
    """Return the ext fields of pulls, most of which are equal: a task sends thousands."""
    return header_to_fields(
        PullMessageRequestHeader(
            consumer_group=group,
            topic=topic,
            queue_id=0,
            queue_offset=0,
            max_msg_nums=0,
            sys_flag=_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=wanted.expression,
            sub_version=0,
            expression_type=wanted.expression_type,
        )
    )


def _pulled(address: str, offset: int, response: Command) -> Pulled:
    """Parse the response to a pull. Raises BrokerError and HeaderError."""
    if response.code not in _PULL_ANSWERS:
        raise BrokerError(address, response.code, response.remark)
    header = response.header(PullMessageResponseHeader)
    following = offset if header.next_begin_offset is None else header.next_begin_offset
    return Pulled(
        response.code,
        checked_offset(following, least=0),
        header.suggest_which_broker_id or MASTER_ID,
        bytes(response.body) if response.code == _FOUND else b"",
    )


async def try_pull(client: Client, queue: QueueName, members: Mapping[int, str], offset: int, reading: Reading) -> None:
    """Pull a message as a task would.

    Raises BrokerError if members refuse it and none returns messages. Returns normally if a member serves the pull, or
    if none responds.
    """
    refusal: BrokerError | None = None
    for broker_id in sorted(members):
        try:
            await pull(client, members[broker_id], queue, offset, count=1, reading=reading)
        except BrokerError as exc:
            if exc.code not in _PASSING:
                refusal = refusal or exc
        except FAILURES:  # after BrokerError: no response, or an invalid one
            continue
        else:
            return
    if refusal is not None:
        raise refusal


AskBound = Callable[[Client, QueueName, Mapping[int, str]], Awaitable[Bound]]


@attrs.frozen
class GatheredBounds:
    """The bounds of many queues, and the reason for each missing one."""

    bounds: dict[QueueName, Bound]
    silent: dict[QueueName, str]


async def gather_bounds(
    client: Client, queues: Sequence[QueueName], members: Members, ask: AskBound, *, seconds: float
) -> GatheredBounds:
    """Request the bounds of many queues concurrently, waiting at most some seconds."""
    bounds: dict[QueueName, Bound] = {}
    silent = dict.fromkeys(queues, f"no response within {seconds:g} s")

    async def ask_one(queue: QueueName) -> None:
        try:
            bounds[queue] = await ask(client, queue, members.get(queue.broker, {}))
            del silent[queue]
        except UnreachableError as exc:
            silent[queue] = exc.reason

    with trio.move_on_after(seconds):
        await for_each_queue(queues, ask_one)
    return GatheredBounds(bounds, silent)


async def for_each_queue(
    queues: Iterable[QueueName], ask: Callable[[QueueName], Awaitable[object]], *, requests: int = 1
) -> None:
    """Await up to `requests` concurrent requests for each queue, concurrently.

    Of each broker, BOUNDS_AT_ONCE at a time: thousands would time out before it has replied to them. A member of its
    group that responds to none is asked after the others from then on: otherwise the rest would wait for the timeout of
    a request each time.
    """
    by_broker: dict[str, list[QueueName]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker, []).append(queue)
    token = _HEARD.set(_Heard())  # the tasks of the nursery share it
    try:
        async with trio.open_nursery() as nursery:
            for of_broker in by_broker.values():
                nursery.start_soon(functools.partial(for_each, at_once=BOUNDS_AT_ONCE // requests), of_broker, ask)
    finally:
        _HEARD.reset(token)
