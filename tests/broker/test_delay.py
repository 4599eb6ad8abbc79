"""Delivery of delayed messages: time, place, content and progress.

Source: store-and-ha section 7.2.
"""

import errno
import pathlib
from collections.abc import Callable

import pytest

from rmqlab.broker.deferred.delay import LEVEL_LIMIT
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting import names
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    NewMessage,
    StoredMessage,
    decode_messages,
)
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutResult
from rmqlab.store.testing import new_message

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "store"
OpenBroker = Callable[..., TalkingBroker]


def messages(store: MessageStore, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    body = b"".join(store.get_message(topic, queue_id, 0, 32).buffers)
    return list(decode_messages(body))


def deliver(talk: TalkingBroker) -> None:
    """Look once, as the loop does."""
    while talk.broker.delay.deliver_due():
        pass


# ---- what is delivered -----------------------------------------------------------------------------------


def test_a_delayed_message_appears_after_its_delay_and_not_before(talk: TalkingBroker) -> None:
    """broker-requests#21."""
    talk.send("orders", 1, DELAY="2")
    talk.clock.advance(4.999)
    deliver(talk)
    assert messages(talk.broker.store, "orders", 1) == []
    talk.clock.advance(0.001)
    deliver(talk)
    assert [message.body for message in messages(talk.broker.store, "orders", 1)] == [b"hello"]
    deliver(talk)
    assert talk.broker.store.max_queue_offset("orders", 1) == 1


def test_a_level_above_the_last_is_the_last(talk: TalkingBroker) -> None:
    """broker-requests#21, store-ha#74: 99 is 18, in queue 17, in the stored text too."""
    talk.send("orders", DELAY="99")
    (waiting,) = messages(talk.broker.store, names.SCHEDULE_TOPIC, 17)
    assert waiting.properties[PROPERTY_DELAY] == "18"
    talk.clock.advance(7199)
    deliver(talk)
    assert messages(talk.broker.store, "orders") == []
    talk.clock.advance(1)
    deliver(talk)
    assert len(messages(talk.broker.store, "orders")) == 1


def test_every_level_waits_as_long_as_its_name_says(talk: TalkingBroker) -> None:
    """store-ha#74: eighteen levels."""
    delays = [1, 5, 10, 30, *(60 * minutes for minutes in range(1, 11)), 20 * 60, 30 * 60, 3600, 7200]
    for level in range(1, 19):
        talk.send(f"level-{level}", DELAY=str(level))
    passed = 0
    for level, seconds in enumerate(delays, 1):
        talk.clock.advance(seconds - passed)
        passed = seconds
        deliver(talk)
        arrived = [n for n in range(1, 19) if messages(talk.broker.store, f"level-{n}")]
        assert arrived == list(range(1, level + 1))


def test_the_last_level_alone_wakes_delivery(talk: TalkingBroker) -> None:
    talk.send("orders", DELAY="18")
    assert talk.broker.delay.seconds_until_due() == 7200


def test_a_delivered_record_keeps_all_but_its_place_and_its_store_time(talk: TalkingBroker) -> None:
    """Golden store: DELAY, REAL_TOPIC, REAL_QID and WAIT stay in the text.

    Hosts and times of birth stay too.
    """
    talk.send("orders", 3, b"body", DELAY="1", TAGS="red", KEYS="k1 k2", UNIQ_KEY="U", mine="yes")
    (waiting,) = messages(talk.broker.store, names.SCHEDULE_TOPIC)
    talk.clock.advance(1)
    deliver(talk)
    (delivered,) = messages(talk.broker.store, "orders", 3)
    assert delivered.properties_text == waiting.properties_text
    assert delivered.properties[PROPERTY_REAL_TOPIC] == "orders"
    assert delivered.properties[PROPERTY_REAL_QID] == "3"
    kept = ("body", "flag", "sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times")
    assert [getattr(delivered, name) for name in kept] == [getattr(waiting, name) for name in kept]
    assert delivered.store_timestamp == waiting.store_timestamp + 1000
    assert talk.broker.store.query("orders", "k2", 1, 0, 2**62).buffers


def test_a_delivered_message_is_found_by_its_tag(talk: TalkingBroker) -> None:
    """The entry in the schedule queue has a time where others have the tag's hash."""
    talk.send("orders", DELAY="1", TAGS="red")
    talk.send("orders", DELAY="1", TAGS="blue")
    talk.clock.advance(1)
    deliver(talk)
    (reply,) = talk.pull("orders", subscription="blue")
    assert [message.properties["TAGS"] for message in decode_messages(reply.body)] == ["blue"]


def test_a_delivered_message_waits_for_no_slave_and_is_pushed_to_the_slaves(open_broker: OpenBroker) -> None:
    """Not even on a SYNC_MASTER without a slave, whose sender got SLAVE_NOT_AVAILABLE."""
    talk = open_broker(broker_role="SYNC_MASTER", flush_disk_type="SYNC_FLUSH")
    (reply,) = talk.exchange(RequestCode.SEND_MESSAGE_V2, _send_fields("orders", DELAY="1", WAIT="false"), b"x")
    assert reply.code == ResponseCode.SUCCESS
    before = talk.replication.appends
    talk.clock.advance(1)
    deliver(talk)
    assert len(messages(talk.broker.store, "orders")) == 1
    assert talk.replication.appends == before + 1
    assert len(talk.broker.flush_waits) + len(talk.broker.slave_waits) == 0


def _send_fields(topic: str, **properties: str) -> dict[str, str]:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return {
        "a": "P", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": text,
    }  # fmt: skip


def test_a_time_beyond_now_plus_the_delay_counts_as_due(talk: TalkingBroker) -> None:
    """It was stored under a clock that was ahead of ours."""
    talk.send("orders", DELAY="3")
    talk.clock.advance(-3600)
    deliver(talk)
    assert len(messages(talk.broker.store, "orders")) == 1


def test_a_message_that_is_handed_back_is_retried_after_the_level_of_its_count(talk: TalkingBroker) -> None:
    """broker-requests#47, store-ha#75: first retry after 10 s, second after 30 s."""
    talk.send("orders", TAGS="red")
    talk.heartbeat("workers", "orders")
    topic, offset = "orders", messages(talk.broker.store, "orders")[0].physical_offset
    for times, seconds in ((1, 10), (2, 30), (3, 60)):
        fields = {"offset": str(offset), "group": "workers", "delayLevel": "0"}
        assert talk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields).code == ResponseCode.SUCCESS
        talk.clock.advance(seconds - 0.001)
        deliver(talk)
        assert talk.broker.store.max_queue_offset("%RETRY%workers", 0) == times - 1
        talk.clock.advance(0.001)
        deliver(talk)
        retried = messages(talk.broker.store, "%RETRY%workers")[-1]
        assert (retried.reconsume_times, retried.properties["RETRY_TOPIC"]) == (times, topic)
        offset = retried.physical_offset


def test_a_half_message_that_says_that_it_is_delayed_is_dropped(talk: TalkingBroker) -> None:
    talk.broker.store.put(
        new_message(
            topic=names.SCHEDULE_TOPIC,
            properties={PROPERTY_DELAY: "1", PROPERTY_REAL_TOPIC: names.HALF_TOPIC, PROPERTY_REAL_QID: "0"},
        )
    )
    talk.clock.advance(1)
    deliver(talk)
    assert messages(talk.broker.store, names.HALF_TOPIC) == []
    assert talk.broker.delay.offsets == {1: 1}


# ---- order, limits, failures -----------------------------------------------------------------------------


def test_one_look_delivers_in_order_and_so_many_of_a_level_at_most(
    talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqlab.broker.deferred.delay.SECONDS_AT_ONCE", 60.0)
    for number in range(LEVEL_LIMIT + 5):
        talk.send("orders", body=str(number).encode(), DELAY="1")
    talk.send("letters", DELAY="2")
    talk.clock.advance(5)
    assert talk.broker.delay.deliver_due() is True
    assert talk.broker.store.max_queue_offset("orders", 0) == LEVEL_LIMIT
    assert talk.broker.store.max_queue_offset("letters", 0) == 1  # no level waits for another
    assert talk.broker.delay.deliver_due() is False
    bodies = talk.broker.store.get_message("orders", 0, LEVEL_LIMIT, 32).buffers
    assert [message.body for message in decode_messages(b"".join(bodies))] == [b"256", b"257", b"258", b"259", b"260"]


def test_large_messages_leave_sockets_their_turn_and_levels_theirs(
    talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog of 256 messages of 4 MB stopped a broker for seconds."""
    monkeypatch.setattr("rmqlab.broker.deferred.delay.SECONDS_AT_ONCE", 0.0)
    for topic, level in (("orders", "1"), ("letters", "2"), ("orders", "1")):
        talk.send(topic, body=b"large", DELAY=level)
    talk.clock.advance(5)
    counts = []
    while talk.broker.delay.deliver_due():
        counts.append([talk.broker.store.max_queue_offset(topic, 0) for topic in ("orders", "letters")])
    assert counts == [[1, 0], [1, 1], [2, 1]]


def test_a_rejected_message_is_retried_before_later_ones(talk: TalkingBroker) -> None:
    talk.send("orders", body=b"1", DELAY="1")
    talk.send("orders", body=b"2", DELAY="1")
    talk.clock.advance(1)
    talk.broker.store.putter.refusal = "the disk is full"
    deliver(talk)
    assert talk.broker.delay.offsets == {}
    assert talk.broker.delay.seconds_until_due() == 0
    talk.broker.store.putter.refusal = None
    deliver(talk)
    assert [message.body for message in messages(talk.broker.store, "orders")] == [b"1", b"2"]


BAD_DESTINATIONS = {
    "nowhere": {},
    "no queue": {PROPERTY_REAL_TOPIC: "orders"},
    "a queue that is no number": {PROPERTY_REAL_TOPIC: "orders", PROPERTY_REAL_QID: "first"},
    "a queue of 5,000 digits": {PROPERTY_REAL_TOPIC: "orders", PROPERTY_REAL_QID: "9" * 5000},
    "a queue beyond 32 bits": {PROPERTY_REAL_TOPIC: "orders", PROPERTY_REAL_QID: str(2**31)},
    "a topic that no directory can have": {PROPERTY_REAL_TOPIC: "a/b", PROPERTY_REAL_QID: "0"},
    "a topic of 128 characters": {PROPERTY_REAL_TOPIC: "t" * 128, PROPERTY_REAL_QID: "0"},
    "a topic of 128 bytes": {PROPERTY_REAL_TOPIC: "\u00e9" * 64, PROPERTY_REAL_QID: "0"},
    "the schedule topic": {PROPERTY_REAL_TOPIC: names.SCHEDULE_TOPIC, PROPERTY_REAL_QID: "0"},
}


@pytest.mark.parametrize("properties", BAD_DESTINATIONS.values(), ids=BAD_DESTINATIONS)
def test_a_message_that_can_never_be_delivered_is_skipped_and_reported(
    talk: TalkingBroker, properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Issue 12.4: in RocketMQ it blocks its level for good."""
    bad = talk.broker.store.put(new_message(topic=names.SCHEDULE_TOPIC, properties={PROPERTY_DELAY: "1", **properties}))
    talk.send("orders", DELAY="1")
    talk.clock.advance(1)
    deliver(talk)
    assert [message.body for message in messages(talk.broker.store, "orders")] == [b"hello"]
    assert talk.broker.store.max_queue_offset(names.SCHEDULE_TOPIC, 0) == 2
    (event,) = [fields for kind, fields in talk.events if kind == "message_skipped"]
    assert (event["service"], event["offset"]) == ("delayed delivery", bad.physical_offset)
    assert "skipped" in caplog.text


def test_a_message_that_has_become_too_large_is_skipped(talk: TalkingBroker) -> None:
    """The limit was lowered meanwhile."""
    talk.send("orders", body=b"x" * 2000, DELAY="1")
    talk.send("orders", DELAY="1")
    talk.broker.store.putter._max_body = 1000
    talk.clock.advance(1)
    deliver(talk)
    assert [message.body for message in messages(talk.broker.store, "orders")] == [b"hello"]


@pytest.mark.parametrize("queue_id", [-5, 99])
def test_a_delayed_message_to_a_nonexistent_queue_survives_a_restart(open_broker: OpenBroker, queue_id: int) -> None:
    """RocketMQ does not compare REAL_QID with the topic."""
    talk = open_broker()
    for body in (b"1", b"2"):
        properties = {PROPERTY_DELAY: "1", PROPERTY_REAL_TOPIC: "orders", PROPERTY_REAL_QID: str(queue_id)}
        talk.broker.store.put(new_message(topic=names.SCHEDULE_TOPIC, body=body, properties=properties))
        talk.clock.advance(1)
        deliver(talk)
        talk.broker.save_tables()
        talk.broker.store.close()
        seconds, talk = talk.clock.seconds, open_broker()
        talk.clock.seconds = seconds
    assert [message.body for message in messages(talk.broker.store, "orders", queue_id)] == [b"1", b"2"]


def test_skipped_messages_are_logged_at_a_limited_rate(talk: TalkingBroker, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(30):
        talk.broker.store.put(new_message(topic=names.SCHEDULE_TOPIC, properties={PROPERTY_DELAY: "1"}))
    talk.clock.advance(1)
    deliver(talk)
    assert [record.getMessage().count("skipped") for record in caplog.records] == [1, 1]  # the 1st and the 10th
    assert talk.broker.delay.offsets == {1: 30}


def test_an_unexpected_failure_skips_the_message_that_causes_it(
    talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = talk.broker.delay.put

    def fail(message: NewMessage, level: int) -> PutResult:
        if message.body == b"bad":
            raise RuntimeError("a fault of ours")
        return put(message, level)

    monkeypatch.setattr(talk.broker.delay, "put", fail)
    talk.send("orders", body=b"bad", DELAY="1")
    talk.send("orders", DELAY="1")
    talk.clock.advance(1)
    deliver(talk)
    assert [message.body for message in messages(talk.broker.store, "orders")] == [b"hello"]
    assert talk.broker.errors.counts == {"delayed delivery": 1}


def test_a_level_pauses_for_ten_seconds_after_a_machine_failure(
    talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message is at fault, so none is skipped; no other level waits."""

    def fail(_message: NewMessage, _level: int) -> PutResult:
        raise OSError(errno.EMFILE, "Too many open files")

    talk.send("orders", DELAY="1")
    talk.send("orders", DELAY="2")
    talk.clock.advance(1)
    with monkeypatch.context() as failing:
        failing.setattr(talk.broker.delay, "put", fail)
        deliver(talk)
    assert talk.broker.delay.seconds_until_due() == 4  # the other level's
    talk.clock.advance(4)
    deliver(talk)
    assert len(messages(talk.broker.store, "orders")) == 1
    assert talk.broker.delay.seconds_until_due() == 6
    talk.clock.advance(6)
    deliver(talk)
    assert len(messages(talk.broker.store, "orders")) == 2


# ---- the table and its file ------------------------------------------------------------------------------


def test_the_table_has_only_levels_that_were_delivered_and_is_written_as_rocketmq_does(talk: TalkingBroker) -> None:
    """Recorded store: a message still waits in level 18, which is not in the file."""
    for level, count in ((1, 1), (3, 4), (4, 1), (5, 1)):
        for _ in range(count):
            talk.send("orders", DELAY=str(level))
    talk.send("orders", DELAY="18")
    talk.clock.advance(60)
    deliver(talk)
    talk.broker.delay.save()
    written = talk.broker.sync.delay_offset_path.read_bytes()
    assert written == (GOLDEN / "master" / "config" / "delayOffset.json").read_bytes()
    assert talk.ask(RequestCode.GET_ALL_DELAY_OFFSET).body == b'{"offsetTable":{1:1,3:4,4:1,5:1}}'


def test_a_restart_resumes_at_the_offset_in_the_file(open_broker: OpenBroker) -> None:
    talk = open_broker()
    talk.send("orders", body=b"1", DELAY="1")
    talk.send("orders", body=b"2", DELAY="2")
    talk.clock.advance(1)
    deliver(talk)
    talk.broker.save_tables()
    talk.broker.store.close()
    again = open_broker()
    again.clock.advance(5)
    deliver(again)
    assert [message.body for message in messages(again.broker.store, "orders")] == [b"1", b"2"]


def test_without_its_last_save_a_broker_delivers_again(open_broker: OpenBroker) -> None:
    """A crash repeats later deliveries."""
    talk = open_broker()
    talk.send("orders", DELAY="1")
    talk.clock.advance(1)
    deliver(talk)
    talk.broker.store.close()
    again = open_broker()
    again.clock.advance(1)
    deliver(again)
    assert len(messages(again.broker.store, "orders")) == 2


@pytest.mark.parametrize(("loaded", "corrected"), [(7, 2), (2, 2), (1, 1), (-3, 0)])
def test_an_offset_outside_of_its_queue_is_corrected_at_the_start(
    open_broker: OpenBroker, loaded: int, corrected: int
) -> None:
    talk = open_broker()
    for _ in range(2):
        talk.send("orders", DELAY="3")
    talk.broker.delay.offsets = {3: loaded}
    talk.broker.save_tables()
    talk.broker.store.close()
    assert open_broker().broker.delay.offsets == {3: corrected}


def test_a_slave_leaves_the_file_as_its_master_wrote_it(slave: TalkingBroker) -> None:
    """store-ha#76: it neither delivers nor counts."""
    text = b'{"offsetTable":{1:12,3:4}}'
    path = slave.broker.sync.delay_offset_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    slave.broker.save_tables()
    assert path.read_bytes() == text
