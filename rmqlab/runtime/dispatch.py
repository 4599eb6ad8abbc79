"""From a request to the function that answers it, and from its answer to bytes.

Handlers are plain functions: each answers now, or keeps the request and answers later (a long poll, a
synchronous send). Nothing here awaits, so that all the frames of one receive are handled in one pass.
"""

import collections
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import attrs

from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codec import ReplyHead, encode_reply_head
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command, fields_of
from rmqlab.remoting.frame import JSON
from rmqlab.remoting.header import Header, HeaderError
from rmqlab.runtime.boundary import InternalErrors

log = logging.getLogger(__name__)

NO_REMARK_SET = "not set any response code"
"""What RocketMQ leaves in an answer whose handler sets a code and no remark."""

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
"""Remark of code 2 where too many requests wait: RocketMQ's when a thread pool's queue is full (NettyRemotingAbstract)."""

S = TypeVar("S")
Buffer = bytes | memoryview


class Peer(Protocol):
    """What a handler needs of the connection that a request came by: a Channel, or a test's stand-in."""

    peer: str

    def write(self, *buffers: Buffer) -> None:
        """Send, in order, at the end of this pass."""


@attrs.frozen
class Reply:
    """An answer. A header of None gives no ext fields at all; an empty one gives `{}`."""

    code: int = ResponseCode.SUCCESS
    header: Header | Mapping[str, str] | None = None
    body: Buffer | Sequence[Buffer] = b""
    remark: str | None = None


@attrs.define(eq=False)
class Request:
    """One request on its way to an answer. Whoever parks it owes it a reply, unless its channel closes."""

    command: Command
    channel: Any  # a Channel, or another Peer
    is_answered: bool = False
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    """Where a reply that cannot be encoded is reported."""
    parked_size: int = 0
    """Bytes that this counts for in its channel while its reply is outstanding; 0 if it was answered at once."""

    def drop_content(self) -> None:
        """Forget body and fields: a reply needs the rest only, and what is parked may be large and many."""
        self.command.body = b""
        self.command.raw_fields = None

    def settle(self) -> None:
        """Note that this request needs no reply any more."""
        self.is_answered = True
        if self.parked_size:
            self.channel.unpark(self)

    def reply(self, reply: Reply) -> None:
        """Answer, once. A oneway request is never answered, whatever the outcome (remoting#10)."""
        if self.is_answered or self.command.flag & 2:
            return
        self.settle()
        try:
            buffers = self._encoded(reply)
        except Exception as exc:  # noqa: BLE001 - a boundary: replies are also released by timers and other peers
            self.errors.caught("reply", exc, f"request code {self.command.code} from {self.channel.peer}")
            buffers = self._encoded(_failed(self.command, f"{type(exc).__name__}: the reply cannot be encoded"))
        self.channel.write(*buffers)

    def _encoded(self, reply: Reply) -> Sequence[Buffer]:
        body = reply.body
        buffers: Sequence[Buffer] = (body,) if isinstance(body, (bytes, memoryview)) else body
        size = sum(map(len, buffers))
        head = encode_reply_head(self.command, reply.code, fields_of(reply.header), reply.remark, size)
        return (head, *buffers) if size else (head,)

    def reply_head(self, head: ReplyHead, code: int, values: Sequence[bytes]) -> None:
        """Answer with a head that is laid out already, and no body."""
        if self.is_answered or self.command.flag & 2:
            return
        self.settle()
        self.channel.write(head.encode(self.command, code, values))


class Refusal(Exception):
    """Raised by a handler that turns a request down, with the code and the reason."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code


Handler = Callable[[S, Any, Request], Reply | None]


@attrs.frozen
class Route(Generic[S]):
    """One request code, the header class it carries, the function that answers it.

    The function takes (state, header, request) and gives a Reply, or None where it has kept the request or
    where RocketMQ says nothing. A header_type of None gives it None for a header.
    """

    code: RequestCode
    header_type: type[Header] | None
    handle: Handler[S]


def handler_table(*families: Iterable[Route[S]]) -> Mapping[int, Route[S]]:
    """Make one table. ValueError where two handlers claim a code."""
    table: dict[int, Route[S]] = {}
    for route in itertools.chain(*families):
        if route.code in table:
            raise ValueError(f"{route.code.name} has two handlers")
        table[route.code] = route
    return table


def _keep_silent(_kind: str, **_fields: object) -> None:
    pass


@attrs.define(eq=False)
class Dispatcher(Generic[S]):
    """The only place where a bad request becomes a response code."""

    table: Mapping[int, Route[S]]
    state: S
    unserved: collections.Counter[tuple[str, int]] = attrs.field(factory=collections.Counter)
    """How often each peer (its IP address) asked for each code that is not served. Bounded: see MAX_UNSERVED."""
    admit: Callable[[Any, Command], Reply | None] | None = None
    """Asked before anything else about each request, with its channel: None, or the answer that turns it away."""
    inject_fault: Callable[[Any, Command], bool] | None = None
    """A fault: asked first, with channel and request. True where the request is not to be handled now."""
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    emit: Callable[..., None] = _keep_silent
    """Tells of a request that is not served: of the first of its peer and code, the 10th, the 100th, and so on."""

    def serve(self, channel: Any, command: Command, *, is_late: bool = False) -> Request | None:
        """Handle one request and send its reply. Return the request if it is parked: its reply comes later.

        One that a fault held back comes late.
        """
        if self.inject_fault is not None and not is_late and self.inject_fault(channel, command):
            return None
        request = Request(command, channel, errors=self.errors)
        route = self.table.get(command.code)
        try:
            if self.admit is not None and (refusal := self.admit(channel, command)) is not None:
                command.serialize_type = JSON  # said before a handler is asked, as in `_failed`
                reply: Reply | None = refusal
            elif route is None:
                self._count_unserved(channel.peer, command.code)
                reply = not_supported(command.code)
            else:
                header = None if route.header_type is None else command.header(route.header_type)
                reply = route.handle(self.state, header, request)
        except Refusal as exc:
            reply = Reply(exc.code, remark=str(exc))
        except (HeaderError, BodyError) as exc:
            reply = _failed(command, str(exc))
        except Exception as exc:  # noqa: BLE001 - a boundary
            self.errors.caught(f"request {command.code}", exc, f"from {channel.peer}")
            reply = _failed(command, f"{type(exc).__name__}: {exc}")
        if reply is not None:
            request.reply(reply)
            return None
        return None if request.is_answered or command.flag & 2 else request

    def _count_unserved(self, peer: str, code: int) -> None:
        host = peer.rpartition(":")[0]
        key = (host, code)
        if key not in self.unserved and len(self.unserved) >= MAX_UNSERVED:
            return
        self.unserved[key] += 1
        count = self.unserved[key]
        if count == 1:
            log.warning("request code %d from %s is not served", code, peer)
        if str(count).strip("0") == "1":
            self.emit("unserved_request", peer=host, code=code, count=count)


MAX_UNSERVED = 1000


def _failed(command: Command, remark: str) -> Reply:
    """Answer what 4.9 answers from outside its handlers: in its own codec, whatever the request's (section 1.4)."""
    command.serialize_type = JSON
    return Reply(ResponseCode.SYSTEM_ERROR, remark=remark)


def not_supported(code: int) -> Reply:
    """Answer a code that nobody serves as a 4.9 broker does (remoting#14, broker-requests#7)."""
    return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {code} not supported")
