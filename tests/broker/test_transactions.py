"""The check of half messages: recipient, time, frequency, and progress.

Source: store-and-ha section 7.1.
"""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from rmqlab.broker.deferred.halfmessages import MILLIS_PER_HOUR
from rmqlab.broker.deferred.transactions import TransactionCheck
from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting import names
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import decode_message
from tests.broker.transactionproducer import COMMIT, ROLLBACK, Producer

OpenBroker = Callable[..., TalkingBroker]


async def test_an_open_half_message_is_asked_about_and_the_answer_commits_it(producer: Producer) -> None:
    """broker-requests#51: the offsets in the check are valid for the reply."""
    producer.send(TAGS="red")
    (asked,) = await producer.after(60)
    assert asked.code == RequestCode.CHECK_TRANSACTION_STATE
    assert asked.is_oneway
    producer.end_transaction(asked, COMMIT)
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


async def test_records_of_transactions_count_as_no_sends_and_the_checks_reads_as_pulls(producer: Producer) -> None:
    """Classes EndTransactionProcessor, TransactionalMessageBridge."""
    producer.end(producer.send(), COMMIT)
    producer.send()
    stats = producer.talk.broker.stats
    await producer.after(60)
    assert {topic: put.messages for topic, put in stats.items.topic_puts.items()} == {names.HALF_TOPIC: 2}
    assert (stats.items.broker_puts["DefaultCluster"].messages, stats.put_total) == (2, 5)
    pulled = {key: get.messages for key, get in stats.items.group_gets.items()}
    assert pulled == {
        "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": 1,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS": 1,
    }
    assert (stats.gets.messages, stats.misses) == (2, 2)


async def test_a_check_without_half_messages_misses_in_both_queues(producer: Producer) -> None:
    """TransactionalMessageServiceImpl.check pulls from both."""
    await producer.after(60)
    assert producer.talk.broker.stats.misses == 2


async def test_a_half_message_is_left_alone_for_six_seconds_and_so_is_what_follows(producer: Producer) -> None:
    """store-ha#72."""
    producer.send()
    producer.end(producer.send(), COMMIT)
    assert await producer.after(5.999) == []
    assert producer.progress() == (None, None)
    assert len(await producer.after(0.001)) == 1
    assert producer.progress() == (2, 1)


async def test_a_clock_that_is_set_back_delays_the_check_until_it_reaches_the_store_time(producer: Producer) -> None:
    """TransactionalMessageServiceImpl.check.

    A check before would count, and the 16th gives the message up.
    """
    producer.send()
    assert await producer.after(-600) == []
    assert await producer.after(540) == []
    assert producer.progress() == (None, None)
    assert len(await producer.after(120)) == 1


async def test_a_producer_is_asked_fifteen_times_then_the_message_is_given_up(producer: Producer) -> None:
    """store-ha#72, broker-requests#51."""
    producer.send()
    for times in range(1, 16):
        (asked,) = await producer.after(60)
        assert decode_message(asked.body).properties["TRANSACTION_CHECK_TIMES"] == str(times)
    assert await producer.after(60) == []
    (discarded_copy,) = producer.stored(names.TRANS_CHECK_MAX_TIME_TOPIC)
    assert discarded_copy.properties["REAL_TOPIC"] == "orders"
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


async def test_op_records_are_used_up_without_a_half_message_to_check(producer: Producer) -> None:
    """TransactionalMessageServiceImpl.check reads op records first."""
    sent = producer.send()
    (asked,) = await producer.after(60)
    producer.end_transaction(asked, COMMIT)
    await producer.after(60)
    assert producer.progress() == (2, 1)
    producer.end(sent, ROLLBACK)  # too late: its copy counted
    assert await producer.after(60) == []
    assert producer.progress() == (2, 2)


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


async def test_a_producer_that_does_not_read_is_passed_over_for_one_that_does(producer: Producer) -> None:
    """ProducerManager.getAvailableChannel: one of three, or the last of them."""
    others = [ScriptedPeer(f"127.0.0.1:5000{number}") for number in range(2, 4)]
    peers = [producer.talk.peer, *others]
    for peer in others:
        producer.join(peer)
    for peer in peers[1:]:
        peer.is_congested = True
    for _ in range(3):
        producer.send()
    await producer.after(60)
    assert [len(peer.asked) for peer in peers] == [3, 0, 0]
    producer.talk.peer.is_congested = True
    await producer.after(60)
    assert sum(len(peer.asked) for peer in peers) == 6


async def test_a_half_message_without_a_group_is_nobodys(producer: Producer) -> None:
    """Not even that of a group with an empty name."""
    producer.join(producer.talk.peer, "")
    producer.talk.send("orders", TRAN_MSG="true")
    assert await producer.after(60) == []
    assert producer.progress() == (1, None)


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
    """CHECK_IMMUNITY_TIME_IN_SECONDS.

    It does not block others: it moves to the end of the queue.
    """
    producer.send(CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    producer.send(UNIQ_KEY="other")
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "other"
    producer.end_transaction(asked, COMMIT)
    (asked,) = await producer.after(60)
    assert asked.ext_fields["msgId"] == "U"


async def test_a_postponed_message_is_resolved_by_its_original_offset(producer: Producer) -> None:
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
    """README of the recordings: first registered oneway, after the first check."""
    assert producer.talk.broker.topics.get(names.HALF_TOPIC) is None
    await producer.after(60)
    topic = producer.talk.broker.topics.get(names.HALF_TOPIC)
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm) == (1, 6)
    assert producer.talk.registration.calls == [(None, True)]


async def test_a_restart_resumes_at_the_committed_progress(open_broker: OpenBroker) -> None:
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
    (asked,), turns = await _turns_in_a_round(producer)
    assert asked.ext_fields["msgId"] == "open"
    assert producer.progress() == (1001, 1000)
    assert turns >= 5


async def test_large_half_messages_leave_sockets_their_turn(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 of 4 MB stopped a broker for half a minute.

    Each is stored again, and sent to its producer.
    """
    monkeypatch.setattr("rmqlab.broker.deferred.transactions.SECONDS_AT_ONCE", 0.0)
    for _ in range(8):
        producer.send()
    asked, turns = await _turns_in_a_round(producer)
    assert len(asked) == 8
    assert turns >= 6


async def _turns_in_a_round(producer: Producer) -> tuple[list[Command], int]:
    """Return what the producer is asked in a round, and the turns of other tasks."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        asked = await producer.after(60)
        nursery.cancel_scope.cancel()
    return asked, turns


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
