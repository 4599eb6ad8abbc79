"""Requests that brokers send to clients (class ClientRemotingProcessor).

The request codes are 39, 40, 220, 221, 307, 309 and 326.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import attrs

from rmqlab.remoting.bodies.heartbeat import ConsumerData
from rmqlab.remoting.bodies.offset import GetConsumerStatusBody, ResetOffsetBody
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.runtime import ConsumerRunningInfo
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.compression import decompress_body
from rmqlab.remoting.headers.broker_admin import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    ResetOffsetRequestHeader,
)
from rmqlab.remoting.headers.group import NotifyConsumerIdsChangedRequestHeader
from rmqlab.remoting.headers.send import CheckTransactionStateRequestHeader, ReplyMessageRequestHeader
from rmqlab.remoting.message import (
    PROPERTY_CORRELATION_ID,
    PROPERTY_PGROUP,
    RecordError,
    StoredMessage,
    decode_message,
    parse_properties,
)
from rmqlab.runtime.net.dispatch import Reply, Request, Route

log = logging.getLogger(__name__)


class GroupMember(Protocol):
    """A consumer, as its client instance and its brokers see it."""

    def topics(self) -> Iterable[str]:
        """Topics whose routes it needs."""

    def data(self) -> ConsumerData | None:
        """Its part of heartbeats; None if it is not registered at brokers."""

    def rebalance_soon(self) -> None:
        """Rebalance soon, because something changed."""

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the group's offsets, as an operator requested."""

    def status(self, topic: str) -> dict[MessageQueue, int]:
        """Return its offsets, as it would commit them."""

    def running_info(self) -> ConsumerRunningInfo:
        """Return its running info (ConsumerRunningInfo), for tools."""

    def consume_directly(self, request: Request) -> None:
        """Consume the message in the request's body at once, and reply with the outcome."""


@attrs.frozen(kw_only=True)
class ReplyMessage:
    """A reply message that a broker pushed to the requesting client."""

    topic: str
    body: bytes
    properties: Mapping[str, str]
    flag: int
    born_timestamp: int
    store_timestamp: int


Checker = Callable[[CheckTransactionStateRequestHeader, StoredMessage, Request], None]


@attrs.frozen(eq=False)
class LocalMembers:
    """The members of this instance that serve requests."""

    consumers: dict[str, GroupMember] = attrs.field(factory=dict)
    """By group."""
    checkers: dict[str, Checker] = attrs.field(factory=dict)
    """By producer group: they return the outcomes of transactions."""
    replies: dict[str, Callable[[ReplyMessage], None]] = attrs.field(factory=dict)
    """By correlation id: they wait for the reply to a request."""


def notify_consumer_ids_changed(
    members: LocalMembers, header: NotifyConsumerIdsChangedRequestHeader, _: Request
) -> None:
    """Rebalance every group, as Java does, not only the named group."""
    del header
    for member in members.consumers.values():
        member.rebalance_soon()


def check_transaction_state(
    members: LocalMembers, header: CheckTransactionStateRequestHeader, request: Request
) -> Reply | None:
    """Check a half message with the member of its producer group.

    It replies with request 37.
    """
    try:
        half = decode_message(request.command.body)
    except RecordError as exc:
        return Reply(ResponseCode.SYSTEM_ERROR, remark=f"the half message does not parse: {exc}")
    group = half.properties.get(PROPERTY_PGROUP, "")
    if (checker := members.checkers.get(group)) is None:
        log.warning(
            "%s checks a transaction of producer group %r, which has no member here", request.channel.peer, group
        )
        return None
    checker(header, half, request)
    return None


def push_reply_message_to_client(members: LocalMembers, header: ReplyMessageRequestHeader, request: Request) -> Reply:
    """Pass a reply message to the waiting request.

    A late one is dropped, and acknowledged to the broker.
    """
    properties = parse_properties(header.properties or "")
    waiting = members.replies.pop(properties.get(PROPERTY_CORRELATION_ID, ""), None)
    if waiting is None:
        log.info("no request waits for the reply with the properties %s", properties)
        return Reply()
    body = request.command.body
    try:
        body = decompress_body(body, header.sys_flag)
    except RecordError as exc:  # as with pulled messages: passed on as it is stored
        log.warning("a reply from %s: %s", request.channel.peer, exc)
    waiting(
        ReplyMessage(
            topic=header.topic,
            body=body,
            properties=properties,
            flag=header.flag,
            born_timestamp=header.born_timestamp,
            store_timestamp=header.store_timestamp or 0,
        )
    )
    return Reply()


def reset_consumer_client_offset(members: LocalMembers, header: ResetOffsetRequestHeader, request: Request) -> None:
    """Apply new offsets to a group. The request is oneway."""
    if (member := members.consumers.get(header.group)) is not None:
        member.reset_offsets(header.topic, ResetOffsetBody.decode(request.command.body).offset_table)


def get_consumer_status(members: LocalMembers, header: GetConsumerStatusRequestHeader, _: Request) -> Reply:
    """Return the offsets that this client would commit."""
    member = members.consumers.get(header.group)
    table = {} if member is None else member.status(header.topic)
    return Reply(body=GetConsumerStatusBody(message_queue_table=table).encode())


def get_consumer_running_info(members: LocalMembers, header: GetConsumerRunningInfoRequestHeader, _: Request) -> Reply:
    """Return a consumer's running info, without a stack dump: there are no threads."""
    if (member := members.consumers.get(header.consumer_group)) is None:
        return _no_such_group(header.consumer_group)
    return Reply(body=member.running_info().encode())


def consume_message_directly(
    members: LocalMembers, header: ConsumeMessageDirectlyResultRequestHeader, request: Request
) -> Reply | None:
    """Deliver one message to the application now; the reply follows when it is done."""
    if (member := members.consumers.get(header.consumer_group)) is None:
        return _no_such_group(header.consumer_group)
    member.consume_directly(request)
    return None


def _no_such_group(group: str) -> Reply:
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"this client has no consumer of group {group}")


ROUTES: list[Route[Any]] = [
    Route(RequestCode.CHECK_TRANSACTION_STATE, CheckTransactionStateRequestHeader, check_transaction_state),
    Route(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ReplyMessageRequestHeader, push_reply_message_to_client),
    Route(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, NotifyConsumerIdsChangedRequestHeader, notify_consumer_ids_changed),
    Route(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetRequestHeader, reset_consumer_client_offset),
    Route(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, GetConsumerStatusRequestHeader, get_consumer_status),
    Route(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningInfoRequestHeader, get_consumer_running_info),
    Route(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeMessageDirectlyResultRequestHeader, consume_message_directly),
]
