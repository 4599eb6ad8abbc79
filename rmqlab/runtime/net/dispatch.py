"""Dispatches requests to their handlers, and encodes the replies.

Handlers are plain functions: each returns its reply, or parks the request and replies later (a long poll, a
synchronous send). Nothing here awaits, so that all the frames of one receive are handled in one pass.
"""

import collections
import enum
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import attrs
import msgspec

from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codec import ReplyHead, encode_reply_head
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import ONEWAY, Command, fields_of
from rmqlab.remoting.frame import JSON
from rmqlab.remoting.header import Header, HeaderError
from rmqlab.runtime.boundary import InternalErrors

log = logging.getLogger(__name__)

NO_REMARK_SET = "not set any response code"
"""RocketMQ's remark in a reply whose handler sets a code and no remark."""

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
"""Remark of code 2 (SYSTEM_BUSY): RocketMQ's when a thread pool's queue is full (NettyRemotingAbstract)."""

S = TypeVar("S")
Buffer = bytes | memoryview


class Peer(Protocol):
    """The part of a connection that handlers use: a Channel, or a stand-in of tests."""

    peer: str

    def write(self, *buffers: Buffer) -> None:
        """Send these buffers, in order, at the end of this pass."""


@attrs.frozen
class Reply:
    """A reply. Header None means no ext fields at all, an empty header means `{}`."""

    code: int = ResponseCode.SUCCESS
    header: Header | Mapping[str, str] | None = None
    body: Buffer | Sequence[Buffer] = b""
    remark: str | None = None
    head: ReplyHead | None = None
    """Preformatted for this remark, and for a typed header of integers that are all set."""


@attrs.define(eq=False)
class Request:
    """One request until its reply.

    A handler that parks it must reply later, unless its channel closes.
    """

    command: Command
    channel: Any  # a Channel, or another Peer
    is_answered: bool = False
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    """Counts replies that cannot be encoded."""
    parked_size: int = 0
    """Bytes counted in its channel while the reply is outstanding; 0 if it is not parked."""

    def drop_content(self) -> None:
        """Drop body and fields, which a reply does not need.

        Many large requests may be parked.
        """
        self.command.body = b""
        self.command.raw_fields = None

    def settle(self) -> None:
        """Mark this request as needing no reply."""
        self.is_answered = True
        if self.parked_size:
            self.channel.unpark(self)

    def reply(self, reply: Reply) -> None:
        """Send the reply, once.

        A oneway request never gets a reply, even on errors (remoting#10).
        """
        if self.is_answered:
            return
        self.settle()
        if self.command.flag & ONEWAY:
            return
        try:
            buffers = self._encoded(reply)
        except Exception as exc:  # noqa: BLE001 - a boundary: replies are also released by timers and other peers
            self.errors.caught("reply", exc, f"request code {self.command.code} from {self.channel.peer}")
            buffers = self._encoded(failed(self.command, f"{type(exc).__name__}: the reply cannot be encoded"))
        self.channel.write(*buffers)

    def _encoded(self, reply: Reply) -> Sequence[Buffer]:
        body = reply.body
        buffers: Sequence[Buffer] = (body,) if isinstance(body, (bytes, memoryview)) else body
        size = sum(map(len, buffers))
        if reply.head is not None and isinstance(reply.header, Header):
            values = [b"%d" % value for value in msgspec.structs.astuple(reply.header)]
            head = reply.head.encode(self.command, reply.code, values, size)
        else:
            head = encode_reply_head(self.command, reply.code, fields_of(reply.header), reply.remark, size)
        return (head, *buffers) if size else (head,)

    def reply_head(self, head: ReplyHead, code: int, values: Sequence[bytes]) -> None:
        """Send a reply of an encoded head, without body."""
        if self.is_answered:
            return
        self.settle()
        if self.command.flag & ONEWAY:
            return
        self.channel.write(head.encode(self.command, code, values))


class Refusal(Exception):
    """Raised by handlers to reject a request, with a response code and a remark."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code


Handler = Callable[[S, Any, Request], Reply | None]


@attrs.frozen
class Route(Generic[S]):
    """One request code, its header class, and its handler.

    The handler is called with (state, header, request) and returns a Reply, or None if it has parked the request or if
    RocketMQ sends no reply. If header_type is None, header is None.
    """

    code: enum.IntEnum
    header_type: type[Header] | None
    handle: Handler[S]


def handler_table(*families: Iterable[Route[S]]) -> Mapping[int, Route[S]]:
    """Return one table of all routes. ValueError if a code has two handlers."""
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
    """Calls the handlers of requests.

    Only this class converts invalid requests to response codes.
    """

    table: Mapping[int, Route[S]]
    state: S
    unserved: collections.Counter[tuple[str, int]] = attrs.field(factory=collections.Counter)
    """Number of requests with unsupported codes, by IP address of the peer and code. See MAX_UNSERVED."""
    admit: Callable[[Any, Command], Reply | None] | None = None
    """Called before the handler, with channel and request. Returns None, or the reply that rejects the request."""
    inject_fault: Callable[[Any, Command], bool] | None = None
    """Called first, with channel and request. Returns True if a fault holds back or drops the request."""
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    emit: Callable[..., None] = _keep_silent
    """Emits an event for the 1st, 10th, 100th, ... unsupported request of each peer and code."""
    ignored: Collection[int] = ()
    """Codes of unsupported requests that get no reply: their senders time out."""

    def serve(self, channel: Any, command: Command, *, is_late: bool = False) -> Request | None:
        """Handle one request and send its reply.

        Return the request if it is parked: it is replied to later.

        `is_late`: a fault has held the request back before.
        """
        if self.inject_fault is not None and not is_late and self.inject_fault(channel, command):
            return None
        request = Request(command, channel, errors=self.errors)
        route = self.table.get(command.code)
        try:
            if self.admit is not None and (refusal := self.admit(channel, command)) is not None:
                command.serialize_type = JSON  # rejected outside of the handlers, as in `failed`
                reply: Reply | None = refusal
            elif route is None:
                self._count_unserved(channel.peer, command.code)
                reply = self._reply_to_unsupported(request)
            else:
                header = None if route.header_type is None else command.header(route.header_type)
                reply = route.handle(self.state, header, request)
        except Refusal as exc:
            reply = Reply(exc.code, remark=str(exc))
        except (HeaderError, BodyError) as exc:
            reply = failed(command, str(exc))
        except Exception as exc:  # noqa: BLE001 - a boundary
            self.errors.caught(f"request {command.code}", exc, f"from {channel.peer}")
            reply = failed(command, f"{type(exc).__name__}: {exc}")
        if reply is not None:
            request.reply(reply)
            return None
        return None if request.is_answered else request

    def _reply_to_unsupported(self, request: Request) -> Reply | None:
        if request.command.code not in self.ignored:
            return not_supported(request.command.code)
        request.settle()  # else it would count as parked
        return None

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


def failed(command: Command, remark: str) -> Reply:
    """Return 4.9's reply to errors outside of its handlers, always in JSON.

    Source: section 1.4.
    """
    command.serialize_type = JSON
    return Reply(ResponseCode.SYSTEM_ERROR, remark=remark)


def not_supported(code: int) -> Reply:
    """Return a 4.9 broker's reply to an unsupported code.

    Source: remoting#14, broker-requests#7.
    """
    return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {code} not supported")
