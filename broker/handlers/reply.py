"""SEND_REPLY_MESSAGE, SEND_REPLY_MESSAGE_V2 (class ReplyMessageProcessor).

A reply message is pushed to the requesting client, over the connection of its producers, and is stored afterwards
whether the push succeeded or not, after its delay if it has a level. The response code reports the push; the store
contributes only the ids. Source: broker-requests section 1.10.
"""

import functools

from rmqlab.broker.client_request import ask_client
from rmqlab.broker.deferred.redirect import redirect_delayed
from rmqlab.broker.handlers.copies import demanded_copies, wait_for_store, waits_for_store
from rmqlab.broker.handlers.send import peer_address, region_fields
from rmqlab.broker.handlers.sendchecks import check_complete, check_send, chosen_queue
from rmqlab.broker.state import Broker
from rmqlab.broker.waits.pending_acks import WaitingSend
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.command import request as new_request
from rmqlab.remoting.headers.send import (
    CompleteSend,
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_PUSH_REPLY_TIME,
    PROPERTY_REPLY_TO_CLIENT,
    NewMessage,
    format_properties,
    offset_message_id,
    parse_properties,
)
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route
from rmqlab.runtime.net.remoting_errors import RemotingError
from rmqlab.store.results import PutResult

PUSH_TIMEOUT = 10.0
"""Seconds for the requesting client to acknowledge the push."""


def send_reply_message(broker: Broker, header: SendMessageRequestHeader, request: Request) -> Reply | None:
    """Push a reply message to the client that waits for it, store it, then respond."""
    try:
        topic = check_send(broker, header)
        send = check_complete(header)
        properties = parse_properties(header.properties or "")
        min_copies = demanded_copies(broker, properties)
    except Refusal as exc:
        return Reply(exc.code, region_fields(broker), remark=str(exc))
    queue_id = chosen_queue(send, topic)
    message = _message(broker, send, request, queue_id)
    store = functools.partial(_store, broker, request, message, properties, min_copies)
    client_id = properties.get(PROPERTY_REPLY_TO_CLIENT)
    if client_id is None:
        store(f"reply message properties[{PROPERTY_REPLY_TO_CLIENT}] is null")
        return None
    asker = broker.producers.by_client_id.get(client_id)
    if asker is None:
        store(f"push reply message fail, channel of <{client_id}> not found.")
        return None
    command = _push(broker, header, send, request, properties)

    async def push() -> None:
        try:
            reply = await ask_client(asker, command, PUSH_TIMEOUT)
            is_taken = reply.code == ResponseCode.SUCCESS
        except RemotingError:
            is_taken = False
        store(None if is_taken else f"push reply message to {client_id}fail.")

    broker.run_for_request(request, push)
    return None


def _push(
    broker: Broker, header: SendMessageRequestHeader, send: CompleteSend, request: Request, properties: dict[str, str]
) -> Command:
    """Return the request that pushes the reply message.

    Its time is added to the properties.
    """
    now = broker.now_millis()
    host, port = broker.store_host
    properties[PROPERTY_PUSH_REPLY_TIME] = str(now)
    fields = ReplyMessageRequestHeader(
        producer_group=header.producer_group,  # type: ignore[arg-type]  # what is absent stays absent, as in 4.9
        topic=send.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=send.queue_id,
        sys_flag=send.sys_flag,  # type: ignore[arg-type]  # as above
        born_timestamp=send.born_timestamp,
        flag=send.flag,
        properties=format_properties(properties),
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode,
        born_host=request.channel.peer,
        store_host=f"{host}:{port}",
        store_timestamp=now,
    )
    return new_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, request.command.body)


def _message(broker: Broker, header: CompleteSend, request: Request, queue_id: int) -> NewMessage:
    """Return the reply message to store: properties as received, without system flags."""
    return NewMessage(
        topic=header.topic,
        queue_id=queue_id,
        body=request.command.body,
        flag=header.flag,
        born_timestamp=header.born_timestamp,
        born_host=peer_address(request),
        store_host=broker.store_host,
        reconsume_times=header.reconsume_times or 0,
        properties=header.properties or "",
    )


def _store(
    broker: Broker,
    request: Request,
    message: NewMessage,
    properties: dict[str, str],
    min_copies: int,
    failure: str | None,
) -> None:
    """Store a reply message if configured, wait for its copies, and respond.

    Only a failed push is reported, and a delay level that does not parse.
    """
    queue_id = message.queue_id
    code = ResponseCode.SUCCESS if failure is None else ResponseCode.SYSTEM_ERROR
    fields = {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"} if failure is None else {}
    send = WaitingSend(
        lambda _status, _cause: request.reply(Reply(code, region_fields(broker) | fields, remark=failure))
    )
    try:
        result = _put(broker, message, properties)
    except ValueError as exc:  # a delay level that is no number
        request.reply(Reply(ResponseCode.SYSTEM_ERROR, remark=str(exc)))
        return
    if result is not None and result.is_stored:
        broker.stats.count_client_put(message.topic, 1, result.end_offset - result.physical_offset)
        fields["msgId"] = offset_message_id(*broker.store_host, result.physical_offset)
        fields |= {"queueId": str(queue_id), "queueOffset": str(result.queue_offset)}
        wait_for_store(broker, send, result, min_copies, is_asked=waits_for_store(properties))
    if send.waits == 0:
        send.send_reply(send.status, send.cause)


def _put(broker: Broker, message: NewMessage, properties: dict[str, str]) -> PutResult | None:
    """Store a reply message, or return None if this broker stores none.

    One with a delay level is stored in the schedule topic. Only a delayed one has the properties as the broker changed
    them: the others have the text of the request. ValueError for a delay level that is no number. Source:
    ReplyMessageProcessor, CommitLog.asyncPutMessage.
    """
    if not broker.config.store_reply_message_enable or broker.store.write_refused() is not None:
        return None
    if PROPERTY_DELAY in properties and redirect_delayed(broker.store, message, properties):
        message.properties = format_properties(properties)
    return broker.put_own(message)


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.SEND_REPLY_MESSAGE, SendMessageRequestHeader, send_reply_message),
    Route(RequestCode.SEND_REPLY_MESSAGE_V2, SendMessageRequestHeaderV2, send_reply_message),
]
