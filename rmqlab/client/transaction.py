"""Transactional messages: visible only after the producer's work has succeeded.

    producer = TransactionProducer(client, "orders-out", check)
    await producer.send_in_transaction(message, charge_the_customer)

The half message is sent; then the application does its work and commits or rolls back. If it does neither, or dies, the
broker checks with a member of the producer group later, repeatedly, until it discards the message. Sources:
broker-requests section 4; classes DefaultMQProducerImpl, ClientRemotingProcessor.
"""

import enum
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from rmqlab.client import broker_api as calls
from rmqlab.client.config import ProducerConfig
from rmqlab.client.instance import FAILURES, Client
from rmqlab.client.message import Attempt, Message, ReceivedMessage, SendResult, SendStatus, received
from rmqlab.client.producer import Producer
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.header import TRUE
from rmqlab.remoting.headers.send import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rmqlab.remoting.message import (
    PROPERTY_PGROUP,
    PROPERTY_TRAN_MSG,
    PROPERTY_UNIQ_KEY,
    TRANSACTION_COMMIT,
    TRANSACTION_ROLLBACK,
    StoredMessage,
    parse_offset_message_id,
)
from rmqlab.runtime.config.valuetypes import check_value, checked
from rmqlab.runtime.net.dispatch import Request

log = logging.getLogger(__name__)


MAX_CHECKS = 2000
"""Checks of transactions at a time, as in Java's client (checkRequestHoldMax). The broker repeats dropped ones."""


class TransactionState(enum.IntEnum):
    """Outcome of the application's own work. The numbers are those of request 37."""

    COMMIT = TRANSACTION_COMMIT
    ROLLBACK = TRANSACTION_ROLLBACK
    UNKNOWN = 0
    """Not known yet: the broker will check again."""


_WORDS = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}
"""Names in traces (enum LocalTransactionState; Java's names lack the last letter)."""

LocalWork = Callable[[Message, str], Awaitable[TransactionState]]
"""Does the application's part of a transaction: gets the message as sent, and its unique id."""
Check = Callable[[ReceivedMessage], Awaitable[TransactionState]]
"""Returns the outcome of a transaction, which an earlier process may have begun. The message has the id of its send."""


@attrs.frozen(kw_only=True)
class TransactionResult:
    """The results of both phases."""

    sent: SendResult
    state: TransactionState
    """The state sent to the broker."""


def _state(function: str, returned: TransactionState) -> TransactionState:
    """Return what a function of the application returned.

    TypeError for anything but a TransactionState.
    """
    check_value(f"{function}(...)", returned, TransactionState)
    return returned


class TransactionProducer(Producer):
    """A producer of transactional messages."""

    @checked
    def __init__(
        self,
        client: Client,
        group: str,
        check: Check,
        config: ProducerConfig | None = None,
        *,
        on_attempt: Callable[[Attempt], None] | None = None,
    ) -> None:
        super().__init__(client, group, config, on_attempt=on_attempt)
        self._check = check
        self._being_checked: set[str] = set()
        """Transactions that the application is checking: repeated checks are ignored."""
        self._checks_under_way = 0
        client.local_members.checkers[self.group] = self._check_soon

    async def close(self) -> None:
        """Leave the group; brokers check with its other members from now on."""
        self.client.local_members.checkers.pop(self.group, None)
        await super().close()

    async def send_in_transaction(
        self,
        message: Message,
        work: LocalWork,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as Producer.send
        message_id: str | None = None,
    ) -> TransactionResult:
        """Send the half message, do the work, end the transaction.

        Errors as `send`: then the work was not begun.

        If the work raises, or returns no TransactionState, the broker gets the state unknown, and the error propagates;
        so it is with `check`, whose error is logged. A half message whose flush or
        copy timed out is rolled back, and its work not begun. A delay level is removed, as in Java.
        """
        half = attrs.evolve(
            message,
            delay_level=0,
            properties={**message.properties, PROPERTY_TRAN_MSG: "true", PROPERTY_PGROUP: self.group},
        )
        sent = await self.send(half, timeout=timeout, message_id=message_id)
        state = TransactionState.ROLLBACK
        try:
            if sent.status is SendStatus.SEND_OK:
                state = TransactionState.UNKNOWN
                state = _state("work", await work(message, sent.message_id))
        finally:
            await self._end(half, sent, state)
        return TransactionResult(sent=sent, state=state)

    async def _end(self, half: Message, sent: SendResult, state: TransactionState) -> None:
        """Send the end of a transaction, without waiting for a reply.

        If it is lost, the broker checks later.
        """
        try:
            address = await calls.master_of(self.client, sent.queue)
            _, _, offset = parse_offset_message_id(sent.offset_message_id)
            header = EndTransactionRequestHeader(
                producer_group=self.group,
                tran_state_table_offset=sent.queue_offset,
                commit_log_offset=offset,
                commit_or_rollback=state,
                msg_id=sent.message_id,
            )
            command = self.client.command(RequestCode.END_TRANSACTION, header, oneway=True)
            await self.client.remoting.send_oneway(address, command)
            if self.tracer is not None:
                self.tracer.ended_transaction(half, address, sent.message_id, _WORDS[state], is_asked_for=False)
        except FAILURES as exc:
            log.warning("end of transaction %s not sent: %s", sent.message_id, exc)

    def _check_soon(self, header: CheckTransactionStateRequestHeader, half: StoredMessage, request: Request) -> None:
        if self._checks_under_way >= MAX_CHECKS:
            log.warning("%d checks are under way: that of %s is dropped", MAX_CHECKS, half.offset_message_id)
            return
        self._checks_under_way += 1
        self.client.nursery.start_soon(self._check_and_reply, header, half, request.channel)

    async def _check_and_reply(
        self, header: CheckTransactionStateRequestHeader, half: StoredMessage, channel: Any
    ) -> None:
        try:
            await self._check_one(header, half, channel)
        finally:
            self._checks_under_way -= 1

    async def _check_one(self, header: CheckTransactionStateRequestHeader, half: StoredMessage, channel: Any) -> None:
        """Let the application check a transaction, and reply on the broker's connection."""
        message = received(half, "", self.client.config.namespace)
        if message.message_id in self._being_checked:
            return
        self._being_checked.add(message.message_id)
        try:
            state = _state("check", await self._check(message))
        except Exception:
            log.exception("the check of transaction %s failed; the broker will check again", message.message_id)
            state = TransactionState.UNKNOWN
        finally:
            self._being_checked.discard(message.message_id)
        end = EndTransactionRequestHeader(
            producer_group=self.group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=state,
            from_transaction_check=TRUE,
            msg_id=half.properties.get(PROPERTY_UNIQ_KEY) or half.offset_message_id,
            transaction_id=header.transaction_id,
        )
        if self.tracer is not None:
            self.tracer.ended_transaction(message, channel.peer, message.message_id, _WORDS[state], is_asked_for=True)
        channel.send_oneway(self.client.command(RequestCode.END_TRANSACTION, end, oneway=True))
