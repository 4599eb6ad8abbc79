"""What brokers ask of clients: 40, 220, 221, 307, 309 (class ClientRemotingProcessor).

Codes 39 and 326 belong to transactions and request-reply; until those are here they are answered with code 3.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from remoting.bodies.heartbeat import ConsumerData
from remoting.bodies.offset import GetConsumerStatusBody, ResetOffsetBody
from remoting.bodies.queue import MessageQueue
from remoting.bodies.runtime import ConsumerRunningInfo
from remoting.codes import RequestCode, ResponseCode
from remoting.dispatch import Reply, Request, Route
from remoting.headers.broker_admin import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    ResetOffsetRequestHeader,
)
from remoting.headers.group import NotifyConsumerIdsChangedRequestHeader


class GroupMember(Protocol):
    """A consumer, as its client instance and its brokers see it."""

    def topics(self) -> Iterable[str]:
        """Topics whose routes it needs."""

    def data(self) -> ConsumerData | None:
        """What heartbeats say of it; None where brokers need not know it."""

    def rebalance_soon(self) -> None:
        """Something changed: look anew which queues are whose."""

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator moves this group."""

    def status(self, topic: str) -> dict[MessageQueue, int]:
        """Where it stands, by its own account."""

    def running_info(self) -> ConsumerRunningInfo:
        """Its inside, for tools."""

    def consume_directly(self, request: Request) -> None:
        """Consume the message in the request's body out of turn, and reply with what became of it."""


Members = Mapping[str, GroupMember]
"""Consumers of this instance, by group."""


def notify_consumer_ids_changed(members: Members, header: NotifyConsumerIdsChangedRequestHeader, _: Request) -> None:
    """Rebalance every group, as Java does, not only the one that is named."""
    del header
    for member in members.values():
        member.rebalance_soon()


def reset_consumer_client_offset(members: Members, header: ResetOffsetRequestHeader, request: Request) -> None:
    """Move a group. Nobody waits for an answer."""
    if (member := members.get(header.group)) is not None:
        member.reset_offsets(header.topic, ResetOffsetBody.decode(request.command.body).offset_table)


def get_consumer_status(members: Members, header: GetConsumerStatusRequestHeader, _: Request) -> Reply:
    """Tell the offsets that this client would commit."""
    member = members.get(header.group)
    table = {} if member is None else member.status(header.topic)
    return Reply(body=GetConsumerStatusBody(message_queue_table=table).encode())


def get_consumer_running_info(members: Members, header: GetConsumerRunningInfoRequestHeader, _: Request) -> Reply:
    """Tell what a consumer holds and does. A stack dump of threads there is none to give."""
    if (member := members.get(header.consumer_group)) is None:
        return _no_such_group(header.consumer_group)
    return Reply(body=member.running_info().encode())


def consume_message_directly(
    members: Members, header: ConsumeMessageDirectlyResultRequestHeader, request: Request
) -> Reply | None:
    """Hand one message to the application now; the answer follows when it is done."""
    if (member := members.get(header.consumer_group)) is None:
        return _no_such_group(header.consumer_group)
    member.consume_directly(request)
    return None


def _no_such_group(group: str) -> Reply:
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"this client has no consumer of group {group}")


ROUTES: list[Route[Any]] = [
    Route(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, NotifyConsumerIdsChangedRequestHeader, notify_consumer_ids_changed),
    Route(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetRequestHeader, reset_consumer_client_offset),
    Route(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, GetConsumerStatusRequestHeader, get_consumer_status),
    Route(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningInfoRequestHeader, get_consumer_running_info),
    Route(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeMessageDirectlyResultRequestHeader, consume_message_directly),
]
