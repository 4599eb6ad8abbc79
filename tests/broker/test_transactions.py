"""The check of half messages: whom it asks, when, how often, and how its progress is kept (store-and-ha section 7.1)."""

import errno
from collections.abc import Callable

import pytest
import trio
import trio.testing

from rmqlab.broker.halfmessages import MILLIS_PER_HOUR
from rmqlab.broker.state import Broker
from rmqlab.broker.testing import ScriptedPeer, TalkingBroker
from rmqlab.broker.transactions import TransactionCheck
from rmqlab.remoting import names
from rmqlab.remoting.bodies.heartbeat import HeartbeatData, ProducerData
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import NewMessage, StoredMessage, decode_message, decode_messages, format_properties
from rmqlab.store.results import PutResult
from rmqlab.store.testing import new_message

COMMIT, ROLLBACK = 8, 12
OpenBroker = Callable[..., TalkingBroker]


class Producer:
    """A broker with the check, and producers to be asked. Time moves only when told."""

    def __init__(self, talk: TalkingBroker) -> None:
        self.talk = talk
        self.check = TransactionCheck(talk.broker)
        self.join(talk.peer)

    def join(self, peer: ScriptedPeer, group: str = "P") -> None:
        data = HeartbeatData(client_id=peer.peer, producer_data_set=[ProducerData(group_name=group)])
        assert self.talk.ask(RequestCode.HEART_BEAT, None, data.encode(), peer=peer).code == ResponseCode.SUCCESS

    def send(self, body: bytes = b"body", **properties: str) -> Command:
        """Send a half message, born now."""
        named = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "U", **properties}
        text = "".join(f"{name}\x01{value}\x02" for name, value in named.items())
        fields = {
            "a": "P", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "4", "h": "0", "i": text,
            "g": str(self.talk.clock.now_millis()),
        }  # fmt: skip
        (reply,) = self.talk.tell(RequestCode.SEND_MESSAGE_V2, fields, body)
        assert reply.code == ResponseCode.SUCCESS
        return reply

    async def after(self, seconds: float) -> list[Command]:
        """Let time pass, have a round of checks; answer what this broker's own peer was asked in it."""
        self.talk.clock.advance(seconds)
        before = len(self.talk.peer.asked)
        await self.check.check()
        return self.talk.peer.asked[before:]

    def answer(self, asked: Command, decision: int) -> None:
        """End the transaction as a producer does that was asked: with the offsets of the question."""
        fields = {
            "producerGroup": "P",
            "tranStateTableOffset": asked.ext_fields["tranStateTableOffset"],
            "commitLogOffset": asked.ext_fields["commitLogOffset"],
            "commitOrRollback": str(decision),
            "fromTransactionCheck": "true",
            "msgId": asked.ext_fields["msgId"],
        }
        assert self.talk.ask(RequestCode.END_TRANSACTION, fields).code == ResponseCode.SUCCESS

    def end(self, sent: Command, decision: int) -> None:
        """End it by the offsets of the send's answer, unasked."""
        (half,) = [half for half in self.stored(names.HALF_TOPIC) if half.offset_message_id == sent.ext_fields["msgId"]]
        fields = {
            "producerGroup": "P", "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.physical_offset), "commitOrRollback": str(decision), "msgId": "U",
        }  # fmt: skip
        assert self.talk.ask(RequestCode.END_TRANSACTION, fields).code == ResponseCode.SUCCESS

    def stored(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        return list(decode_messages(b"".join(self.talk.broker.store.get_message(topic, queue_id, 0, 32).buffers)))

    def progress(self) -> tuple[int | None, int | None]:
        """How far the half queue and the op queue are done."""
        query = self.talk.broker.offsets.query
        return query("CID_RMQ_SYS_TRANS", names.HALF_TOPIC, 0), query("CID_RMQ_SYS_TRANS", names.OP_HALF_TOPIC, 0)


@pytest.fixture
def producer(talk: TalkingBroker) -> Producer:
    return Producer(talk)


async def test_an_open_half_message_is_asked_about_and_the_answer_commits_it(producer: Producer) -> None:
    """broker-requests#51: the offsets in the question are valid for the answer."""
    producer.send(TAGS="red")
    (asked,) = await producer.after(60)
    assert asked.code == RequestCode.CHECK_TRANSACTION_STATE
    assert asked.is_oneway
    producer.answer(asked, COMMIT)
    (seen,) = producer.stored("orders", 1)
    assert seen.sys_flag == 8
    assert seen.prepared_transaction_offset == int(asked.ext_fields["commitLogOffset"])
    assert await producer.after(60) == []
    assert producer.progress() == (2, 1)


async def test_the_question_shows_the_message_as_it_was_sent(producer: Producer) -> None:
    """broker-requests#52."""
    producer.send(b"the body", KEYS="k")
    (asked,) = await producer.after(60)
    shown = decode_message(asked.body)
    assert (shown.topic, shown.queue_id, shown.body) == ("orders", 1, b"the body")
    assert (shown.properties["PGROUP"], shown.properties["TRAN_MSG"], shown.properties["KEYS"]) == ("P", "true", "k")
    assert asked.ext_fields["msgId"] == asked.ext_fields["transactionId"] == "U"


async def test_a_resolved_half_message_is_not_asked_about(producer: Producer) -> None:
    """broker-requests#50."""
    producer.end(producer.send(), ROLLBACK)
    producer.end(producer.send(), COMMIT)
    assert await producer.after(60) == []
    assert producer.progress() == (2, 2)
    assert len(producer.stored("orders", 1)) == 1


async def test_a_half_message_is_left_alone_for_six_seconds_and_so_is_what_follows(producer: Producer) -> None:
    """store-ha#72."""
    producer.send()
    producer.end(producer.send(), COMMIT)
    assert await producer.after(5.999) == []
    assert producer.progress() == (None, None)
    assert len(await producer.after(0.001)) == 1
    assert producer.progress() == (2, 1)


async def test_a_producer_is_asked_fifteen_times_then_the_message_is_given_up(producer: Producer) -> None:
    """store-ha#72, broker-requests#51."""
    producer.send()
    for times in range(1, 16):
        (asked,) = await producer.after(60)
        assert decode_message(asked.body).properties["TRANSACTION_CHECK_TIMES"] == str(times)
    assert await producer.after(60) == []
    (given_up,) = producer.stored(names.TRANS_CHECK_MAX_TIME_TOPIC)
    assert given_up.properties["REAL_TOPIC"] == "orders"
    topic = producer.talk.broker.topics.get(names.TRANS_CHECK_MAX_TIME_TOPIC)
    assert topic is not None
    assert topic.write_queue_nums == 1
    assert await producer.after(60) == []
    assert producer.progress() == (16, None)
    assert producer.talk.events[-1][0] == "transaction_given_up"


async def test_a_message_older_than_the_log_keeps_is_given_up_unasked(producer: Producer) -> None:
    """store-ha#72: 72 h, file_reserved_time."""
    producer.send()
    assert await producer.after(72 * MILLIS_PER_HOUR / 1000 + 1) == []
    assert len(producer.stored(names.TRANS_CHECK_MAX_TIME_TOPIC)) == 1


async def test_the_producers_of_a_group_are_asked_in_turn_and_only_those_that_live(producer: Producer) -> None:
    """broker-requests#51, section 4.4."""
    others = [ScriptedPeer(f"127.0.0.1:{port}") for port in (50002, 50003, 50004)]
    for peer in others[:2]:
        producer.join(peer)
    producer.join(others[2], group="Q")
    for _ in range(6):
        producer.send()
    await producer.after(60)
    peers = [producer.talk.peer, *others]
    assert [len(peer.asked) for peer in peers] == [2, 2, 2, 0]
    others[0].is_closed = True
    await producer.after(60)
    assert [len(peer.asked) for peer in peers] == [5, 2, 5, 0]


async def test_a_message_whose_producers_are_gone_is_counted_on_and_asked_about_when_they_return(
    producer: Producer,
) -> None:
    producer.send()
    producer.talk.broker.channel_closed(producer.talk.peer)  # type: ignore[arg-type]
    assert await producer.after(60) == []
    assert await producer.after(60) == []
    producer.join(producer.talk.peer)
    (asked,) = await producer.after(60)
    assert decode_message(asked.body).properties["TRANSACTION_CHECK_TIMES"] == "3"


async def test_a_message_with_a_time_of_its_own_is_left_alone_for_that_long(producer: Producer) -> None:
    """CHECK_IMMUNITY_TIME_IN_SECONDS. It stands in nobody's way: it goes to the end of the queue."""
    producer.send(CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    producer.send(UNIQ_KEY="other")
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "other"
    producer.answer(asked, COMMIT)
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "U"


async def test_a_postponed_message_is_resolved_by_the_offset_that_its_producer_knows(producer: Producer) -> None:
    sent = producer.send(CHECK_IMMUNITY_TIME_IN_SECONDS="300")
    for _ in range(2):
        assert await producer.after(60) == []
    producer.end(sent, COMMIT)
    for _ in range(6):
        assert await producer.after(60) == []
    assert len(producer.stored("orders", 1)) == 1
    assert producer.progress() == (3, 1)


async def test_a_late_answer_to_an_old_question_does_not_silence_the_next_one(producer: Producer) -> None:
    """The copy that was asked about last counts, as in RocketMQ."""
    sent = producer.send()
    await producer.after(60)
    producer.end(sent, ROLLBACK)
    (again,) = await producer.after(60)
    assert decode_message(again.body).properties["TRANSACTION_CHECK_TIMES"] == "2"
    assert producer.progress() == (2, 1)


async def test_a_check_that_the_store_refuses_is_made_again_next_time(producer: Producer) -> None:
    producer.send()
    producer.talk.broker.store.putter.refusal = "the disk is full"
    assert await producer.after(60) == []
    assert producer.progress() == (None, None)
    producer.talk.broker.store.putter.refusal = None
    assert len(await producer.after(60)) == 1


async def test_the_first_check_makes_the_half_topic_known(producer: Producer) -> None:
    """README of the recordings: its first registration is a oneway one, after the first check."""
    assert producer.talk.broker.topics.get(names.HALF_TOPIC) is None
    await producer.after(60)
    topic = producer.talk.broker.topics.get(names.HALF_TOPIC)
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm) == (1, 6)
    assert producer.talk.registration.calls == [(None, True)]


async def test_a_restart_goes_on_from_the_committed_progress(open_broker: OpenBroker) -> None:
    producer = Producer(open_broker())
    producer.end(producer.send(), COMMIT)
    producer.send(UNIQ_KEY="open")
    await producer.after(60)
    producer.talk.broker.save_tables()
    producer.talk.broker.store.close()
    again = Producer(open_broker())
    again.talk.clock.seconds = producer.talk.clock.seconds
    (asked,) = await again.after(60)
    assert asked.ext_fields["msgId"] == "open"
    assert again.progress() == (3, 1)


async def test_progress_beyond_the_queue_is_corrected(producer: Producer) -> None:
    """A log that was cut is shorter than the offsets say."""
    producer.talk.broker.offsets.commit("CID_RMQ_SYS_TRANS", names.HALF_TOPIC, 0, 7)
    producer.talk.broker.offsets.commit("CID_RMQ_SYS_TRANS", names.OP_HALF_TOPIC, 0, 7)
    await producer.after(60)
    assert producer.progress() == (0, 0)
    producer.send()
    assert len(await producer.after(60)) == 1


async def test_many_transactions_are_checked_in_pieces(producer: Producer) -> None:
    """A thousand that are resolved, and one that is open."""
    for number in range(1000):
        sent = producer.talk.send("orders", TRAN_MSG="true", PGROUP="P", UNIQ_KEY=str(number))
        fields = {
            "producerGroup": "P", "tranStateTableOffset": str(number), "commitOrRollback": str(ROLLBACK),
            "commitLogOffset": str(int(sent.ext_fields["msgId"][-16:], 16)),
        }  # fmt: skip
        producer.talk.ask(RequestCode.END_TRANSACTION, fields)
    producer.send(UNIQ_KEY="open")
    steps = 0

    async def count_steps() -> None:
        nonlocal steps
        while True:
            await trio.lowlevel.checkpoint()
            steps += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_steps)
        (asked,) = await producer.after(60)
        nursery.cancel_scope.cancel()
    assert asked.ext_fields["msgId"] == "open"
    assert producer.progress() == (1001, 1000)
    assert steps >= 5


async def test_a_round_is_made_every_minute_first_after_one(
    open_broker: OpenBroker, autojump_clock: trio.testing.MockClock
) -> None:
    """store-ha#72: transaction_check_interval."""
    rounds: list[float] = []

    class Noted(TransactionCheck):
        async def check(self) -> None:
            rounds.append(autojump_clock.current_time())

    with trio.move_on_after(200):
        await Noted(open_broker().broker).check_forever()
    assert rounds == [60, 120, 180]


# ---- what clients chose ----------------------------------------------------------------------------------


def commit_to(producer: Producer, topic: str, body: bytes, **properties: str) -> int:
    """Bring a message into queue 0 of any topic, as any client can: send it with REAL_TOPIC, then commit it.

    It is sent to queue 1, so that the op record of the commit itself does not go to the queue that is read. Returns
    the response code.
    """
    talk = producer.talk
    sent = talk.send("letters", 1, body, PGROUP="P", REAL_TOPIC=topic, REAL_QID="0", **properties)
    fields = {
        "producerGroup": "P", "tranStateTableOffset": sent.ext_fields["queueOffset"], "commitOrRollback": str(COMMIT),
        "commitLogOffset": str(int(sent.ext_fields["msgId"][-16:], 16)),
    }  # fmt: skip
    return talk.ask(RequestCode.END_TRANSACTION, fields).code


def skipped(producer: Producer) -> list[str]:
    return [fields["reason"] for kind, fields in producer.talk.events if kind == "message_skipped"]


@pytest.mark.parametrize(
    ("body", "properties"),
    [
        (b"no number", {"TAGS": "d"}),
        (b"0", {}),
        (b"0", {"TAGS": "x"}),
        (b"9" * 5000, {"TAGS": "d"}),
        (b"-1", {"TAGS": "d"}),
        (b" 0_0 ", {"TAGS": "d"}),
        (b"7", {"TAGS": "d"}),
        (b"\xff\xfe", {"TAGS": "d"}),
    ],
)
async def test_what_is_no_op_record_is_skipped_once_and_stops_nothing(
    producer: Producer, body: bytes, properties: dict[str, str]
) -> None:
    """Issue 12.3: three ordinary requests ended the broker, and after each restart again."""
    assert commit_to(producer, names.OP_HALF_TOPIC, body, **properties) == ResponseCode.SUCCESS
    producer.send(UNIQ_KEY="first")
    producer.end(producer.send(UNIQ_KEY="second"), COMMIT)
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "first"
    assert producer.progress()[1] == 2
    await producer.after(60)
    assert len(skipped(producer)) == 1


async def test_a_bad_op_record_behind_one_that_waits_is_reported_once(producer: Producer) -> None:
    """It is read again in each round, for the record before it is not used up."""
    producer.send(CHECK_IMMUNITY_TIME_IN_SECONDS="7200", UNIQ_KEY="waits")
    await producer.after(60)
    producer.send(UNIQ_KEY="young")
    producer.end(producer.send(), COMMIT)
    commit_to(producer, names.OP_HALF_TOPIC, b"bad", TAGS="d")
    for _ in range(3):
        await producer.after(1)
    assert len(skipped(producer)) == 1


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_TOPIC": "orders", "REAL_QID": "first"},
        {"REAL_TOPIC": "orders", "REAL_QID": "9" * 5000},
        {"REAL_TOPIC": "t" * 300, "REAL_QID": "0"},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "TRANSACTION_CHECK_TIMES": "9" * 5000},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "TRANSACTION_CHECK_TIMES": "-1" + "0" * 30},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "TRAN_PREPARED_QUEUE_OFFSET": "9" * 5000},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "CHECK_IMMUNITY_TIME_IN_SECONDS": str(2**63 - 1)},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "CHECK_IMMUNITY_TIME_IN_SECONDS": "soon"},
    ],
)
async def test_a_half_message_of_any_form_stops_nothing(producer: Producer, properties: dict[str, str]) -> None:
    """A log that was copied may hold what this broker would not have stored."""
    producer.talk.broker.store.put(
        new_message(topic=names.HALF_TOPIC, properties={"PGROUP": "P", "UNIQ_KEY": "odd", **properties})
    )
    producer.send(UNIQ_KEY="behind")
    for _ in range(20):
        assert [asked.ext_fields["msgId"] for asked in await producer.after(60)][-1:] in (["behind"], ["odd"], [])
    asked_about = {asked.ext_fields["msgId"] for asked in producer.talk.peer.asked}
    assert "behind" in asked_about
    assert not producer.talk.broker.errors.counts


@pytest.mark.parametrize("immunity", [{}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "7200"}])
async def test_a_half_message_without_room_for_one_more_property_is_put_aside(
    producer: Producer, immunity: dict[str, str]
) -> None:
    """4.9.8 tries to store it again for ever, and checks nothing behind it."""
    properties = {"PGROUP": "P", "REAL_TOPIC": "orders", "REAL_QID": "1", **immunity}
    room = 32767 - len(format_properties(properties | {"fill": ""}))
    producer.talk.broker.store.put(
        new_message(topic=names.HALF_TOPIC, body=b"full", properties=properties | {"fill": "x" * room})
    )
    producer.send(UNIQ_KEY="behind")
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "behind"
    (aside,) = producer.stored(names.TRANS_CHECK_MAX_TIME_TOPIC)
    assert aside.body == b"full"
    assert producer.progress() == (2, None)


async def test_a_half_message_that_cannot_even_be_put_aside_is_skipped(producer: Producer) -> None:
    producer.send(b"x" * 2000, UNIQ_KEY="large")
    producer.send(UNIQ_KEY="behind")
    producer.talk.broker.store.putter._max_body = 1000
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "behind"
    (reason,) = skipped(producer)
    assert "MESSAGE_ILLEGAL" in reason


async def test_a_machine_that_fails_ends_the_round_and_skips_nothing(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_broker: Broker, _message: NewMessage) -> PutResult:
        raise OSError(errno.EMFILE, "Too many open files")

    producer.send()
    with monkeypatch.context() as failing:
        failing.setattr(Broker, "put_own", fail)
        assert await producer.after(60) == []
    assert producer.progress() == (None, None)
    assert len(await producer.after(60)) == 1
    assert skipped(producer) == []


async def test_half_messages_without_a_producer_are_one_line_of_the_log_in_a_round(
    producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        producer.send(PGROUP="nobody\n")
    await producer.after(60)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "5 half messages of group 'nobody\\n'" in line
