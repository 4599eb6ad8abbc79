"""Requests of tools that the broker forwards to consumers.

Classes Broker2Client, AdminBrokerProcessor; broker-requests section 6.3. The tool's request is parked until the
consumer has replied or timed out.
"""

from collections.abc import Generator, Sequence

from rmqlab.broker.client_request import ask_client
from rmqlab.broker.state import Broker
from rmqlab.broker.tables.clients import Member
from rmqlab.remoting import names
from rmqlab.remoting.bodies.offset import GetConsumerStatusBody, ResetOffsetBody, ResetOffsetBodyForC
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request as new_request
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.broker_admin import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    ResetOffsetRequestHeader,
)
from rmqlab.remoting.message import RecordError, parse_offset_message_id
from rmqlab.runtime.net.dispatch import NO_REMARK_SET, Refusal, Reply, Request, Route
from rmqlab.runtime.net.remoting_errors import RemotingError, RequestTimeoutError
from rmqlab.runtime.net.slices import Work, in_slices

PASS_ON_TIMEOUT = 10.0
STATUS_TIMEOUT = 5.0
OLDEST_WITH_RUNNING_INFO = 62
"""Client version 3.1.8-SNAPSHOT."""
OLDEST_WITH_RESET = 28
"""Client version 3.0.7-SNAPSHOT."""
TO_THE_END = -1


def get_consumer_running_info(broker: Broker, header: GetConsumerRunningInfoRequestHeader, request: Request) -> None:
    """Return the running info of one consumer (broker-requests#59)."""
    member = _member(broker, header.consumer_group, header.client_id)
    _pass_on(broker, member, request, dict(request.command.ext_fields), request.command.body)


def consume_message_directly(
    broker: Broker, header: ConsumeMessageDirectlyResultRequestHeader, request: Request
) -> None:
    """Let one consumer consume one message now.

    The broker adds the message and its own name.
    """
    try:
        _, _, offset = parse_offset_message_id(header.msg_id or "")
    except RecordError as exc:
        raise HeaderError(str(exc)) from None
    record = broker.store.message_at(offset)
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no message at commit log offset {offset}")
    member = _member(broker, header.consumer_group, header.client_id or "")
    fields = request.command.ext_fields | {"brokerName": broker.config.broker_name}
    _pass_on(broker, member, request, fields, bytes(record))


def _member(broker: Broker, group: str, client_id: str) -> Member:
    member = broker.consumers.find(group, client_id)
    if member is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer {client_id} of group {group} is here")
    if member.version < OLDEST_WITH_RUNNING_INFO:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"consumer {client_id} is too old for this: {member.version}")
    return member


def _pass_on(broker: Broker, member: Member, request: Request, fields: dict[str, str], body: bytes) -> None:
    """Forward the request to the client in a task, and its reply unchanged."""

    async def ask() -> None:
        command = new_request(request.command.code, fields, body)
        try:
            reply = await ask_client(member.channel, command, PASS_ON_TIMEOUT)
            reply_fields = None if reply.raw_fields is None else reply.ext_fields
        except RequestTimeoutError as exc:
            request.reply(Reply(ResponseCode.CONSUME_MSG_TIMEOUT, remark=str(exc)))
        except (RemotingError, HeaderError) as exc:
            request.reply(Reply(ResponseCode.SYSTEM_ERROR, remark=str(exc)))
        else:
            request.reply(Reply(reply.code, reply_fields, reply.body, reply.remark))

    broker.run_for_request(request, ask)


@in_slices
def reset_offset(broker: Broker, header: ResetOffsetRequestHeader, request: Request) -> Work:
    """Send all consumers of a group new offsets.

    The offsets committed here stay (broker-requests#58).
    """
    broker.operators.add(request.channel)
    body = ResetOffsetBody(offset_table=(yield from _targets(broker, header)))
    members = _members(broker, header.group)
    if not members:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"no consumer of group {header.group} is here")
    fields = ResetOffsetRequestHeader(topic=header.topic, group=header.group, timestamp=header.timestamp)
    # The format depends on the tool's language, not on the consumers': mqadmin has an option for it.
    text = ResetOffsetBodyForC.of(body).encode() if request.command.language == "CPP" else body.encode()
    for member in members:
        if member.version < OLDEST_WITH_RESET:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"consumer {member.client_id} is too old: {member.version}")
        member.channel.send_oneway(new_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, text))
    broker.emit("offset_reset", group=header.group, topic=header.topic)
    return Reply(body=body.encode(), remark=NO_REMARK_SET)  # as Broker2Client leaves it


def _targets(broker: Broker, header: ResetOffsetRequestHeader) -> Generator[None, None, dict[MessageQueue, int]]:
    """Return the new offset of each write queue for the requested time.

    Unless the reset is forced, no offset is raised.
    """
    topic = broker.topics.require(header.topic, ResponseCode.SYSTEM_ERROR)
    store, targets = broker.store, {}
    for queue_id in range(topic.write_queue_nums):
        committed = broker.offsets.query(header.group, header.topic, queue_id)
        if committed in (None, -1):  # 4.9 stores a committed -1, and returns -1 for a missing offset
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"group {header.group} has no offset in queue {queue_id} of topic {header.topic}",
            )
        if header.timestamp == TO_THE_END:
            target = store.max_queue_offset(header.topic, queue_id)
        else:
            target = max(store.offset_by_time(header.topic, queue_id, header.timestamp), 0)
        queue = MessageQueue(broker_name=broker.config.broker_name, queue_id=queue_id, topic=header.topic)
        targets[queue] = target if header.is_force or target < committed else committed
        yield
    return targets


def get_consumer_status(broker: Broker, header: GetConsumerStatusRequestHeader, request: Request) -> None:
    """Return the progress of the consumers of a group, or of one of them."""
    members = _members(broker, header.group)
    if not members:  # 4.9 does not check, and raises
        raise HeaderError(f"no consumer of group {header.group} is here")
    wanted = names.unless_blank(header.client_addr)
    for member in members:
        if member.version < OLDEST_WITH_RESET:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"consumer {member.client_id} is too old: {member.version}")
    broker.run_for_request(
        request, _ask_status, header, [one for one in members if wanted in (None, one.client_id)], request
    )


async def _ask_status(header: GetConsumerStatusRequestHeader, members: Sequence[Member], request: Request) -> None:
    """Ask one consumer after the other.

    Consumers that do not reply are left out, as in RocketMQ.
    """
    table = {}
    fields = GetConsumerStatusRequestHeader(topic=header.topic, group=header.group)
    for member in members:
        command = new_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields)
        try:
            reply = await ask_client(member.channel, command, STATUS_TIMEOUT)
            if reply.code == ResponseCode.SUCCESS and reply.body:
                table[member.client_id] = GetConsumerStatusBody.decode(reply.body).message_queue_table
        except (RemotingError, BodyError):
            continue
    request.reply(Reply(body=GetConsumerStatusBody(consumer_table=table).encode(), remark=NO_REMARK_SET))


def _members(broker: Broker, group_name: str) -> list[Member]:
    group = broker.consumers.groups.get(group_name)
    return list(group.members.values()) if group is not None else []


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningInfoRequestHeader, get_consumer_running_info),
    Route(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeMessageDirectlyResultRequestHeader, consume_message_directly),
    Route(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffsetRequestHeader, reset_offset),
    Route(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, GetConsumerStatusRequestHeader, get_consumer_status),
]
