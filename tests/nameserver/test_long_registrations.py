"""Registrations of very many topics, which are entered in slices."""

from typing import Any

import pytest

from rmqlab.nameserver.queuetable import TOPICS_AT_ONCE
from rmqlab.remoting.bodies.registration import RegisterBrokerBody, encode_compressed
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.codes import VERSION, RequestCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.runtime.net.slices import UNITS_AT_ONCE

SLICES = 3
TOPICS = SLICES * UNITS_AT_ONCE * TOPICS_AT_ONCE


def registration(
    *,
    name: str = "broker-a",
    address: str = "10.0.0.1:10911",
    counter: int = 1,
    compressed: str = "false",
    topics: int = TOPICS,
    table: dict[str, TopicConfig] | None = None,
) -> Command:
    whole = {f"t{number}": TopicConfig(topic_name=f"t{number}") for number in range(topics)}
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
            data_version=DataVersion(counter=counter, timestamp=5),
            topic_config_table=whole if table is None else table,
        )
    )
    raw = encode_compressed(body) if compressed == "true" else body.encode()
    fields = {
        "brokerName": name, "brokerAddr": address, "clusterName": "c", "haServerAddr": "10.0.0.1:10912",
        "brokerId": "0", "compressed": compressed,
    }  # fmt: skip
    return Command(RequestCode.REGISTER_BROKER, version=VERSION, body=raw, raw_fields=fields)


def run_turn(bench: Any) -> None:
    bench.turns.pop(0)()


@pytest.mark.parametrize(("compressed", "slices"), [("false", SLICES), ("true", 2 * SLICES)])
def test_topics_are_entered_in_slices(bench: Any, compressed: str, slices: int) -> None:
    """One of 100,000 topics held up a nameserver for up to 3 s."""
    wire = bench.wire()
    assert bench.ask(registration(compressed=compressed), wire) is None
    for _ in range(slices):
        assert not wire.written
        run_turn(bench)
    assert wire.written
    assert len(bench.state.routes.queues) == TOPICS
    assert [kind for kind, _ in bench.events] == ["broker_registered", "route_changed"]
    assert not bench.turns


def test_the_data_version_counts_once_all_topics_are_entered(bench: Any) -> None:
    """Until then another registration enters them, too: the first may end early."""
    first, second = bench.wire(), bench.wire()
    assert bench.ask(registration(), first) is None
    assert bench.ask(registration(), second) is None
    assert bench.state.routes.live["10.0.0.1:10911"].data_version.counter == -1
    first.is_closed = True
    while bench.turns:
        run_turn(bench)
    assert second.written
    assert len(bench.state.routes.queues) == TOPICS
    assert bench.state.routes.live["10.0.0.1:10911"].data_version.counter == 1


def test_an_older_registration_does_not_overwrite_topics_of_a_newer_one(bench: Any) -> None:
    older, newer = bench.wire(), bench.wire()
    last = f"t{TOPICS - 1}"
    assert bench.ask(registration(), older) is None
    topic = TopicConfig(topic_name=last, perm=4)
    assert bench.ask(registration(counter=2, table={last: topic}), newer) is None
    while bench.turns:
        run_turn(bench)
    assert older.written
    assert newer.written
    assert bench.state.routes.queues[last]["broker-a"].perm == 4
    assert bench.state.routes.live["10.0.0.1:10911"].data_version.counter == 2
    named = [fields["topic_count"] for kind, fields in bench.events if kind == "route_changed"]
    assert named == [TOPICS, 1]


@pytest.mark.parametrize("topics_of_second", [1, TOPICS])
def test_the_last_of_two_masters_of_one_name_has_address_and_queues(bench: Any, topics_of_second: int) -> None:
    """4.9 registers under one lock."""
    wires = [bench.wire() for _ in range(3)]
    last = f"t{TOPICS - 1}"
    tables = [
        {f"t{number}": TopicConfig(topic_name=f"t{number}", perm=perm) for number in numbers}
        for perm, numbers in ((2, range(TOPICS)), (4, range(TOPICS - topics_of_second, TOPICS)), (6, [TOPICS - 1]))
    ]
    for number, wire in enumerate(wires):
        table = tables[number]
        assert bench.ask(registration(address=f"10.0.0.{number}:10911", counter=number, table=table), wire) is None
    while bench.turns:
        run_turn(bench)
    assert [decode_command(*FrameDecoder().feed(bytes(wire.written))).code for wire in wires] == [0, 0, 0]
    routes = bench.state.routes
    assert routes.brokers["broker-a"].addresses == {0: "10.0.0.2:10911"}
    assert routes.queues[last]["broker-a"].perm == 6
    assert routes.queues[f"t{TOPICS - 2}"]["broker-a"].perm == (2 if topics_of_second == 1 else 4)
    assert [routes.live[f"10.0.0.{number}:10911"].data_version.counter for number in range(3)] == [0, 1, 2]


def test_a_short_registration_does_not_overtake_one_that_is_still_decoded(bench: Any) -> None:
    """Each waited for the other.

    The short one was entered first, and continued after the long one.
    """
    first, second = bench.wire(), bench.wire()
    assert bench.ask(registration(compressed="true"), first) is None
    assert bench.ask(registration(address="10.0.0.2:10911", counter=2), second) is None
    for _ in range(4 * SLICES):
        run_turn(bench)
        if second.written:
            break
    assert not bench.turns
    assert first.written
    assert second.written
    routes = bench.state.routes
    assert routes.brokers["broker-a"].addresses == {0: "10.0.0.2:10911"}
    assert [routes.live[f"10.0.0.{number}:10911"].data_version.counter for number in (1, 2)] == [1, 2]


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_master_whose_connection_closes_holds_up_no_other_of_its_name(
    bench: Any, monkeypatch: pytest.MonkeyPatch, *, is_busy: bool
) -> None:
    if is_busy:  # rejected with code 2 after the first slice
        monkeypatch.setattr("rmqlab.runtime.net.slices.MAX_WAITING", 0)
    first, second = bench.wire(), bench.wire()
    bench.ask(registration(), first)
    first.is_closed = True
    monkeypatch.setattr("rmqlab.runtime.net.slices.MAX_WAITING", 100)
    bench.ask(registration(address="10.0.0.2:10911"), second)
    while bench.turns:
        run_turn(bench)
    assert second.written
    assert bench.state.routes.live["10.0.0.2:10911"].data_version.counter == 1


@pytest.mark.parametrize("another_stays", [True, False])
def test_topics_that_were_entered_before_the_connection_closed_are_announced(
    bench: Any, *, another_stays: bool
) -> None:
    """But not after the removal of their broker name."""
    wire = bench.wire()
    if another_stays:
        bench.register(name="broker-a", host="10.0.0.9", broker_id=1)
    assert bench.ask(registration(), wire) is None
    wire.is_closed = True
    bench.state.announce(bench.state.routes.lose_connection(wire, wire.peer))
    while bench.turns:
        run_turn(bench)
    named = sum(fields["topic_count"] for kind, fields in bench.events if kind == "route_changed")
    entered = UNITS_AT_ONCE * TOPICS_AT_ONCE - 1
    assert named == entered
    assert len(bench.state.routes.queues) == (entered if another_stays else 0)


def test_no_topics_are_entered_for_a_broker_that_is_removed_meanwhile(bench: Any) -> None:
    wire = bench.wire()
    assert bench.ask(registration(), wire) is None
    bench.state.announce(bench.state.routes.unregister("c", "10.0.0.1:10911", "broker-a", 0))
    while bench.turns:
        run_turn(bench)
    assert wire.written
    assert bench.state.routes.queues == {}
    assert [kind for kind, _ in bench.events] == ["broker_registered", "broker_unregistered", "route_changed"]


@pytest.mark.parametrize(
    ("limit", "value"),
    [("MAX_QUEUE_DATA", 5 * TOPICS // 2), ("MAX_TOPIC_CHARACTERS", 16 * TOPICS)],
    ids=["pairs", "names"],
)
def test_registrations_that_are_entered_together_do_not_exceed_a_limit(
    bench: Any, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """Each has room when it begins.

    Up to 100 of 200,000 topics made 20 times as many as the limit allows.
    """
    monkeypatch.setattr(f"rmqlab.nameserver.queuetable.{limit}", value)
    wires = [bench.wire() for _ in range(3)]
    for number, wire in enumerate(wires):
        table = {f"{number}-{topic}": TopicConfig(topic_name=f"{number}-{topic}") for topic in range(TOPICS)}
        name = f"broker-{number}"
        assert bench.ask(registration(name=name, address=f"10.0.0.{number}:10911", table=table), wire) is None
    while bench.turns:
        run_turn(bench)
    codes = [decode_command(*FrameDecoder().feed(bytes(wire.written))).code for wire in wires]
    assert codes == [0, 0, 1]
    assert 2 * TOPICS < len(bench.state.routes.queues) < 3 * TOPICS
    versions = [bench.state.routes.live[f"10.0.0.{number}:10911"].data_version.counter for number in range(3)]
    assert versions == [1, 1, -1]
    announced = sum(fields["topic_count"] for kind, fields in bench.events if kind == "route_changed")
    assert announced == len(bench.state.routes.queues)
