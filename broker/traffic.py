"""Journals clients' requests at the broker.

This serves clients that keep no journal of their own. With `journal_traffic` each send, pull and offset commit emits an
event `served` at its reply. A pull may be held for long before that, so a changed offset emits `offset_committed` at
once. The handlers here wrap those of the broker; without the setting none is wrapped.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import attrs

from rmqlab.broker.state import Broker
from rmqlab.remoting.batch import decode_batch
from rmqlab.remoting.codec import ReplyHead
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.header import Header
from rmqlab.remoting.headers.offset import UpdateConsumerOffsetRequestHeader
from rmqlab.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rmqlab.remoting.headers.send import SendMessageRequestHeader
from rmqlab.remoting.message import PROPERTY_UNIQ_KEY, parse_properties
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route

SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
WATCHED = (*SENDS, RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET)

Answered = Callable[[int, str | None, int | None], None]
"""Gets response code, remark, and the reply's next offset or queue offset, if it has one."""


@attrs.define(eq=False)
class WatchedRequest(Request):
    """A request that reports its reply, immediate or later."""

    answered: Answered = attrs.field(kw_only=True)
    original: Request = attrs.field(kw_only=True)
    """The wrapped request, which its channel keeps."""

    def settle(self) -> None:
        super().settle()
        self.original.settle()

    def reply(self, reply: Reply) -> None:
        if not self.is_answered:
            header = reply.header
            offset = header.next_begin_offset if isinstance(header, PullMessageResponseHeader) else None
            self.answered(reply.code, reply.remark, offset)
        super().reply(reply)

    def reply_head(self, head: ReplyHead, code: int, values: Sequence[bytes]) -> None:
        if not self.is_answered:
            self.answered(code, None, int(values[2]))  # the order of `stored_head`: ids, queue, queue offset
        super().reply_head(head, code, values)


def watched(table: Mapping[int, Route[Broker]]) -> Mapping[int, Route[Broker]]:
    """Return the handlers, wrapped to emit events where `WATCHED` lists them.

    These are sends, pulls and commits.
    """
    return {
        code: attrs.evolve(route, handle=functools.partial(_handle, route)) if code in WATCHED else route
        for code, route in table.items()
    }


def _handle(route: Route[Broker], broker: Broker, header: Header, request: Request) -> Reply | None:
    began, request_fields = broker.now_millis(), _describe(header, request)

    def answered(code: int, remark: str | None, offset: int | None) -> None:
        broker.emit(
            "served",
            request=route.code.name,
            peer=request.channel.peer,
            **request_fields,
            code=code,
            remark=remark,
            result_offset=offset,
            took=broker.now_millis() - began,
        )

    watched_request = WatchedRequest(
        request.command, request.channel, errors=request.errors, answered=answered, original=request
    )
    before = _committed(broker, header)
    try:
        reply = route.handle(broker, header, watched_request)
    except Refusal as exc:
        answered(exc.code, str(exc), None)
        raise
    if (offset := _committed(broker, header)) != before:
        where = {name: request_fields[name] for name in ("group", "topic", "queue")}
        name, peer = route.code.name, request.channel.peer
        broker.emit("offset_committed", request=name, peer=peer, **where, before=before, offset=offset)
    if reply is not None:
        watched_request.reply(reply)
    return None


def _committed(broker: Broker, header: Header) -> int | None:
    """The stored offset of the group that pulls or commits.

    None for a request that does neither.
    """
    if not isinstance(header, PullMessageRequestHeader | UpdateConsumerOffsetRequestHeader):
        return None
    return broker.offsets.query(header.consumer_group, header.topic, header.queue_id)


def _describe(header: Header, request: Request) -> dict[str, object]:
    """Return the fields of the request for its event."""
    if isinstance(header, PullMessageRequestHeader):
        group, queue, offset = header.consumer_group, header.queue_id, header.queue_offset
    elif isinstance(header, UpdateConsumerOffsetRequestHeader):
        group, queue, offset = header.consumer_group, header.queue_id, header.commit_offset
    else:
        assert isinstance(header, SendMessageRequestHeader), "the others of WATCHED are sends"
        ids = _unique_ids(header, request)
        return {"group": header.producer_group, "topic": header.topic, "queue": header.queue_id, "message_ids": ids}
    return {"group": group, "topic": header.topic, "queue": queue, "offset": offset}


def _unique_ids(header: SendMessageRequestHeader, request: Request) -> list[str]:
    """Return the unique ids of the sent messages.

    Empty for an invalid batch, which its handler rejects.
    """
    if not header.batch:
        return [parse_properties(header.properties or "").get(PROPERTY_UNIQ_KEY, "")]
    try:
        batch = decode_batch(request.command.body)
        return [parse_properties(text.decode()).get(PROPERTY_UNIQ_KEY, "") for text in batch.properties]
    except ValueError:
        return []
