"""END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE.

Classes EndTransactionProcessor, AdminBrokerProcessor; broker-requests sections 4.2, 6; store-and-ha section 7.1. An
earlier resolution is not detected: a message committed twice is delivered twice, as in RocketMQ.
"""

from typing import Any

from rmqlab.broker.deferred.halfmessages import committed, op_record, resumed
from rmqlab.broker.deferred.redirect import redirect_delayed
from rmqlab.broker.handlers.copies import stored_demand, wait_for_store, waits_for_store
from rmqlab.broker.handlers.query import decoded_at
from rmqlab.broker.handlers.send import NOT_STORED, STORED
from rmqlab.broker.state import Broker
from rmqlab.broker.waits.pending_acks import WaitingSend
from rmqlab.remoting import names
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.broker_admin import ResumeCheckHalfMessageRequestHeader
from rmqlab.remoting.headers.send import EndTransactionRequestHeader
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_PGROUP,
    PROPERTY_TRAN_MSG,
    TRANSACTION_COMMIT,
    TRANSACTION_ROLLBACK,
    NewMessage,
    RecordError,
    StoredMessage,
    format_properties,
    parse_offset_message_id,
)
from rmqlab.runtime.net.dispatch import NO_REMARK_SET, Refusal, Reply, Request, Route
from rmqlab.store.results import PutStatus

MAX_REMARK = 300
UNKNOWN = 0
"""The producer has not decided yet."""


def end_transaction(broker: Broker, header: EndTransactionRequestHeader, request: Request) -> Reply | None:
    """Commit or roll back.

    For any other type there is no reply, even if the client waits for one.
    """
    is_outcome = header.commit_or_rollback in (UNKNOWN, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)
    if not is_outcome and request.command.raw_fields is not None:  # fields that are not there are not checked
        raise HeaderError(f"commitOrRollback is {header.commit_or_rollback}, expected 0, 8 or 12")
    if broker.is_slave:
        return Reply(ResponseCode.SLAVE_NOT_AVAILABLE, remark="this is a slave: transactions end at its master")
    if header.commit_or_rollback == UNKNOWN:
        request.settle()
        return None
    half = _checked_half(broker, header)
    if header.commit_or_rollback == TRANSACTION_COMMIT:
        return _commit(broker, half, request)
    _resolve(broker, half)
    return Reply(remark=NO_REMARK_SET)


def _checked_half(broker: Broker, header: EndTransactionRequestHeader) -> StoredMessage:
    if header.commit_log_offset is None or header.tran_state_table_offset is None:
        raise HeaderError("the end of a transaction without commitLogOffset or tranStateTableOffset")
    half = half_at(broker, header.commit_log_offset)
    group = half.properties.get(PROPERTY_PGROUP)
    if group is None or group != header.producer_group:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"that half message is not of producer group {header.producer_group}")
    if half.queue_offset != header.tran_state_table_offset:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"that half message is number {half.queue_offset}, not {header.tran_state_table_offset}",
        )
    if half.physical_offset != header.commit_log_offset:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"the half message has offset {half.physical_offset}, not the requested one"
        )
    return half


def half_at(broker: Broker, physical_offset: int, *topics: str) -> StoredMessage:
    """Return the half message at a commit log offset.

    The message must be in one of `topics`, if any are given. At END_TRANSACTION, RocketMQ checks the message's group
    and offsets, but not its topic.
    """
    half = decoded_at(broker, physical_offset)
    if half is None or (topics and half.topic not in topics):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no half message at commit log offset {physical_offset}")
    return half


def _commit(broker: Broker, half: StoredMessage, request: Request) -> Reply | None:
    """Store the committed message and its op record.

    The reply is sent when the message is flushed and copied.
    """
    message = _committed(broker, half)
    result = broker.put_own(message)
    if not result.is_stored:
        code = NOT_STORED.get(result.status, ResponseCode.SYSTEM_ERROR)
        raise Refusal(code, result.reason or result.status.name)
    _resolve(broker, half)
    send = WaitingSend(lambda status, cause: request.reply(_outcome(status, cause)))
    is_asked = waits_for_store(half.properties)
    wait_for_store(broker, send, result, stored_demand(broker, half.properties), is_asked=is_asked)
    return None if send.waits else Reply()


def _outcome(status: PutStatus, cause: str | None) -> Reply:
    """Return the reply to a commit: success if stored, with any copies."""
    if status in STORED:
        return Reply()
    return Reply(NOT_STORED.get(status, ResponseCode.SYSTEM_ERROR), remark=cause)


def _committed(broker: Broker, half: StoredMessage) -> NewMessage:
    """Return the message to store.

    Refusal if the properties, which a client may have chosen, lack its destination.

    System topics are not refused, as in RocketMQ: their readers skip records of another form.
    """
    properties = dict(half.properties)
    try:
        message = committed(half)
        if properties.get(PROPERTY_DELAY) and redirect_delayed(broker.store, message, properties):
            properties.pop(PROPERTY_TRAN_MSG, None)
            message.properties = format_properties(properties)
    except ValueError as exc:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(exc)[:MAX_REMARK]) from None
    return message


def _resolve(broker: Broker, half: StoredMessage) -> None:
    record = op_record(half.queue_offset, broker.store_host, broker.now_millis())
    record.queue_id = half.queue_id
    broker.put_own(record)


def resume_check_half_message(broker: Broker, header: ResumeCheckHalfMessageRequestHeader, _request: Any) -> Reply:
    """Store a discarded half message in the half topic again.

    Its count of checks begins at 0 again.
    """
    try:
        _, _, physical_offset = parse_offset_message_id(header.msg_id)
    except RecordError as exc:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(exc)) from None
    half = half_at(broker, physical_offset, names.TRANS_CHECK_MAX_TIME_TOPIC, names.HALF_TOPIC)
    result = broker.put_own(resumed(half))
    if not result.is_stored:
        raise Refusal(ResponseCode.SYSTEM_ERROR, result.reason or result.status.name)
    return Reply()


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.END_TRANSACTION, EndTransactionRequestHeader, end_transaction),
    Route(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageRequestHeader, resume_check_half_message),
]
