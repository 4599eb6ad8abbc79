"""Transactional sends against a scripted broker: ends of transactions, and checks."""

from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from rmqlab.client.instance import Client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.transaction import TransactionProducer, TransactionState
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request
from rmqlab.remoting.header import TRUE
from rmqlab.remoting.headers.send import (
    EndTransactionRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from rmqlab.remoting.message import offset_message_id, parse_properties
from rmqlab.runtime.net.dispatch import Reply
from tests.client.conftest import record

if TYPE_CHECKING:
    from tests.client.conftest import FakeBroker, World

MESSAGE = Message(topic="orders", body=b"x", keys="k", delay_level=3)


@attrs.define(eq=False)
class Application:
    """Its work, and its reply to checks."""

    state: TransactionState | Exception = TransactionState.COMMIT
    worked: list[str] = attrs.field(factory=list)
    asked: list[ReceivedMessage] = attrs.field(factory=list)

    async def work(self, message: Message, unique_id: str) -> TransactionState:
        assert message is MESSAGE
        self.worked.append(unique_id)
        return self._next_state()

    async def check(self, message: ReceivedMessage) -> TransactionState:
        await trio.lowlevel.checkpoint()
        self.asked.append(message)
        return self._next_state()

    def _next_state(self) -> TransactionState:
        if isinstance(self.state, Exception):
            raise self.state
        return self.state


@pytest.fixture
def broker(world: "World") -> "FakeBroker":
    (broker,) = world.add("a")
    world.route("orders", 1)
    return broker


async def ends(world: "World", broker: "FakeBroker", count: int = 1) -> list[EndTransactionRequestHeader]:
    await world.until(lambda: len(broker.asked(RequestCode.END_TRANSACTION)) == count)
    return [command.header(EndTransactionRequestHeader) for command in broker.asked(RequestCode.END_TRANSACTION)]


@pytest.mark.parametrize("state", list(TransactionState))
async def test_the_half_message_is_marked_and_its_end_names_its_place(
    world: "World", broker: "FakeBroker", client: Client, state: TransactionState
) -> None:
    """broker-requests sections 4.1, 4.2."""
    application = Application(state)
    stored = SendMessageResponseHeader(
        msg_id=offset_message_id(broker.host, broker.port, 4711), queue_id=0, queue_offset=17
    )
    broker.script[RequestCode.SEND_MESSAGE_V2].append(Reply(header=stored))
    producer = TransactionProducer(client, "pg", application.check)
    result = await producer.send_in_transaction(MESSAGE, application.work)
    (sent,) = broker.asked(RequestCode.SEND_MESSAGE_V2)
    header = sent.header(SendMessageRequestHeaderV2)
    properties = parse_properties(header.properties or "")
    assert header.sys_flag == 4
    assert properties.items() >= {"TRAN_MSG": "true", "PGROUP": "pg", "KEYS": "k"}.items()
    assert "DELAY" not in properties
    (end,) = await ends(world, broker)
    assert end == EndTransactionRequestHeader(
        producer_group="pg",
        tran_state_table_offset=17,
        commit_log_offset=4711,
        commit_or_rollback={"COMMIT": 8, "ROLLBACK": 12, "UNKNOWN": 0}[state.name],
        msg_id=properties["UNIQ_KEY"],
    )
    assert (result.state, result.sent.message_id, application.worked) == (state, end.msg_id, [end.msg_id])
    assert broker.asked(RequestCode.END_TRANSACTION)[0].is_oneway


async def test_work_that_fails_leaves_the_end_open(world: "World", broker: "FakeBroker", client: Client) -> None:
    application = Application(ValueError("no money"))
    producer = TransactionProducer(client, "pg", application.check)
    with pytest.raises(ValueError, match="no money"):
        await producer.send_in_transaction(MESSAGE, application.work)
    assert [end.commit_or_rollback for end in await ends(world, broker)] == [0]


@pytest.mark.parametrize(
    "code",
    [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE],
)
async def test_a_half_message_that_is_not_safe_is_rolled_back_and_no_work_begins(
    world: "World", broker: "FakeBroker", client: Client, code: ResponseCode
) -> None:
    application = Application()
    stored = SendMessageResponseHeader(
        msg_id=offset_message_id(broker.host, broker.port, 1), queue_id=0, queue_offset=1
    )
    broker.script[RequestCode.SEND_MESSAGE_V2].append(Reply(code, header=stored))
    producer = TransactionProducer(client, "pg", application.check)
    result = await producer.send_in_transaction(MESSAGE, application.work)
    assert (result.state, result.sent.status.name, application.worked) == (TransactionState.ROLLBACK, code.name, [])
    assert [end.commit_or_rollback for end in await ends(world, broker)] == [12]


async def ask(broker: "FakeBroker", group: str = "pg") -> None:
    """Send a oneway check of a half message on a connection that the client opened."""
    fields: dict[str, Any] = {"tranStateTableOffset": "17", "commitLogOffset": "4711", "transactionId": "T"}
    half = record("orders", 0, 17, b"half", f"UNIQ_KEY\x01U\x02PGROUP\x01{group}")
    (channel,) = broker.server.channels
    channel.send_oneway(request(RequestCode.CHECK_TRANSACTION_STATE, fields, half, oneway=True))
    await trio.sleep(0.1)


@pytest.mark.parametrize(
    ("state", "sent_state"),
    [(TransactionState.COMMIT, 8), (TransactionState.ROLLBACK, 12), (TransactionState.UNKNOWN, 0), (ValueError(), 0)],
)
async def test_a_question_is_answered_by_the_application(
    world: "World", broker: "FakeBroker", client: Client, state: TransactionState | Exception, sent_state: int
) -> None:
    """broker-requests section 4.4."""
    application = Application(state)
    producer = TransactionProducer(client, "pg", application.check)
    await producer.send(attrs.evolve(MESSAGE, delay_level=0))
    await ask(broker)
    (end,) = await ends(world, broker)
    assert (end.commit_or_rollback, end.from_transaction_check, end.msg_id) == (sent_state, TRUE, "U")
    assert (end.tran_state_table_offset, end.commit_log_offset, end.transaction_id) == (17, 4711, "T")
    assert [(message.topic, message.body) for message in application.asked] == [("orders", b"half")]


async def test_only_a_group_that_is_here_answers(world: "World", broker: "FakeBroker", client: Client) -> None:
    application = Application()
    producer = TransactionProducer(client, "pg", application.check)
    await producer.send(attrs.evolve(MESSAGE, delay_level=0))
    await ask(broker, "other")
    await producer.close()
    await ask(broker)
    await trio.sleep(1)
    assert application.asked == []
    assert broker.asked(RequestCode.END_TRANSACTION) == []
    del world


async def test_a_broker_that_asks_again_before_the_answer_is_not_heard(
    world: "World", broker: "FakeBroker", client: Client
) -> None:
    gate, asked = trio.Event(), list[bytes]()

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.body)
        await gate.wait()
        return TransactionState.COMMIT

    producer = TransactionProducer(client, "pg", check)
    await producer.send(attrs.evolve(MESSAGE, delay_level=0))
    await ask(broker)
    await ask(broker)
    gate.set()
    assert len(await ends(world, broker)) == 1
    assert asked == [b"half"]
    await ask(broker)
    assert len(await ends(world, broker, 2)) == 2
