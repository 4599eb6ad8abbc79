"""Small tables of brokers: what they need not hold.

That planted violations are found: tests/cluster/plant.
"""

import shutil
from pathlib import Path

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.remoting.bodies.group import SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import DelayOffsets
from rmqlab.remoting.body import Body
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.catalogue import TABLE_FILES
from tests.cluster.plant.smallrun import DELAYED_SENDS, made_up_run, write_run


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "run"


def save(directory: Path, node: str, name: str, table: Body) -> None:
    (directory / node / "store" / "config" / name).write_bytes(table.encode_pretty())


def short_run() -> MadeUpRun:
    run = MadeUpRun()
    run.send(1)
    run.deliver(1, 0)
    return run


def test_a_group_that_consumed_only_before_the_last_start_is_not_missed(directory: Path) -> None:
    run = short_run()
    run.end("broker-a")
    run.ready("broker-a")
    write_run(run, directory)
    save(directory, "broker-a", "subscriptionGroup.json", SubscriptionGroupWrapper())
    assert judge_directory(directory)["groups_missing broker-a"].value == 0


def test_a_group_that_consumed_since_is(directory: Path) -> None:
    write_run(short_run(), directory)
    save(directory, "broker-a", "subscriptionGroup.json", SubscriptionGroupWrapper())
    assert judge_directory(directory)["groups_missing broker-a"].value == 1


def test_a_delay_offset_is_behind_by_what_was_delivered_beyond_it(directory: Path) -> None:
    write_run(made_up_run(), directory)
    save(directory, "broker-a", "delayOffset.json", DelayOffsets(offset_table={1: 1}))
    assert judge_directory(directory)["delay_offset_behind broker-a"].value == DELAYED_SENDS - 1


def delayed_twice(*topics: str) -> MadeUpRun:
    """Store the records of one more message, with a client's retries."""
    run = made_up_run()
    for topic in topics:
        run.now += 10_000
        run.store("ID999999", Queue(topic, "broker-a", 0), run.logs)
    return run


WAITS, DELIVERED = SCHEDULE_TOPIC, "reminders"


@pytest.mark.parametrize(
    ("topics", "behind"),
    [
        ((WAITS,), 0),
        ((WAITS, WAITS), 0),
        ((WAITS, DELIVERED), 1),
        ((WAITS, WAITS, DELIVERED), 1),
        ((WAITS, DELIVERED, WAITS), 1),
        ((WAITS, DELIVERED, DELIVERED, WAITS), 1),
        ((WAITS, WAITS, DELIVERED, DELIVERED), 2),
        ((WAITS, DELIVERED, WAITS, DELIVERED), 2),
        ((WAITS, WAITS, WAITS, DELIVERED, DELIVERED), 2),
        ((DELIVERED, WAITS), 0),
    ],
)
def test_a_message_that_was_delayed_twice_is_delivered_in_order(
    directory: Path, topics: tuple[str, ...], behind: int
) -> None:
    write_run(delayed_twice(*topics), directory)
    assert judge_directory(directory)["delay_offset_behind broker-a"].value == behind


def store_delayed(run: MadeUpRun, message_id: str, *steps: tuple[int, float]) -> None:
    """Store records of a message.

    Each has a delay level, or 0 for its own topic, and the seconds since the one before.
    """
    for level, seconds in steps:
        run.wait(seconds)
        queue = Queue(WAITS, "broker-a", level - 1) if level else Queue(DELIVERED, "broker-a", 0)
        run.store(message_id, queue, run.logs)


@pytest.mark.parametrize(
    ("steps", "behind"),
    [
        ([(3, 10), (2, 10), (0, 10)], 0),
        ([(3, 10), (2, 10), (0, 10), (0, 1)], 1),
        ([(3, 10), (2, 10), (2, 10), (0, 10)], 0),
        ([(3, 10), (2, 10), (2, 10), (0, 10), (0, 1)], 1),
        ([(3, 10), (2, 10), (2, 10), (0, 10), (0, 1), (0, 1)], 2),
        ([(2, 10), (2, 9.5), (0, 0.5), (0, 0.2)], 1),
        ([(2, 10), (2, 9.5), (0, 0.5), (0, 0.6)], 2),
    ],
)
def test_only_records_that_were_due_and_must_be_the_delivered_ones_count(
    directory: Path, steps: list[tuple[int, float]], behind: int
) -> None:
    """All levels of this run delay by 1 s."""
    run = made_up_run()
    store_delayed(run, "ID999999", *steps)
    write_run(run, directory)
    assert judge_directory(directory)["delay_offset_behind broker-a"].value == behind


def test_a_broker_that_started_again_may_have_delivered_a_record_twice(directory: Path) -> None:
    run = made_up_run()
    store_delayed(run, "ID999999", (2, 10), (2, 10), (0, 10), (0, 1))
    begin = next(place for place, entry in enumerate(run.entries) if entry.kind == "cluster_stopping")
    restarted = [attrs.evolve(one, at_millis=run.entries[begin].at_millis) for one in run.entries if is_ready(one)]
    killed = attrs.evolve(restarted[0], kind="node_killed", fields={})
    run.entries[begin:begin] = [killed, *restarted]
    write_run(run, directory)
    assert judge_directory(directory)["delay_offset_behind broker-a"].value == 1


def is_ready(entry: JournalEntry) -> bool:
    return (entry.node, entry.kind) == ("broker-a", "node_ready")


def test_a_broker_that_did_not_stop_in_order_may_have_saved_no_delay_offset(directory: Path) -> None:
    run = made_up_run()
    run.entries = [
        one for one in run.entries if one.kind not in ("cluster_stopping", "cluster_stopped", "node_stopped")
    ]
    write_run(run, directory)
    save(directory, "broker-a", "delayOffset.json", DelayOffsets())
    assert (
        judge_directory(directory)["delay_offset_behind broker-a"].missing == "the node was not stopped in good order"
    )


def test_tables_of_a_node_that_lost_power_prove_nothing(directory: Path) -> None:
    run = short_run()
    run.end("broker-a")
    run.add("broker-a", "power_lost")
    findings = judge_directory(write_run(run, directory))
    for metric in TABLE_FILES:
        assert findings[f"{metric.name} broker-a"].missing == "the node lost power, or its store"


def test_an_unreadable_table_is_unknown(directory: Path) -> None:
    write_run(made_up_run(), directory)
    for path in (directory / "broker-a" / "store" / "config").glob("*.json"):
        path.write_bytes(b"{")
    findings = judge_directory(directory)
    for metric in TABLE_FILES:
        assert findings[f"{metric.name} broker-a"].missing.endswith(".json could not be read")


AHEAD = "delay_offset_ahead"


def test_a_delay_offset_is_ahead_by_what_its_queue_lacks(directory: Path) -> None:
    write_run(made_up_run(), directory)
    save(directory, "broker-a-s", "delayOffset.json", DelayOffsets(offset_table={1: DELAYED_SENDS + 7, 4: 2}))
    findings = judge_directory(directory)
    assert findings[f"{AHEAD} broker-a"].value == 0
    found = findings[f"{AHEAD} broker-a-s"]
    assert found.value == 7
    assert [piece.text for piece in found.evidence] == [
        "broker-a-s, level 1: offset 10 in delayOffset.json, and its queue ends at 3",
        "broker-a-s, level 4: offset 2 in delayOffset.json, and its queue ends at 0",
    ]


def test_a_delay_offset_is_unknown_without_the_file_if_messages_were_delayed(directory: Path) -> None:
    write_run(made_up_run(), directory)
    for path in directory.glob("*/store/config/delayOffset.json"):
        path.unlink()
    assert judge_directory(directory)[f"{AHEAD} broker-a"].missing == "delayOffset.json could not be read"


def test_no_delay_offset_is_needed_without_delayed_messages(directory: Path) -> None:
    write_run(short_run(), directory)
    for path in directory.glob("*/store/config/delayOffset.json"):
        path.unlink()
    assert judge_directory(directory)[f"{AHEAD} broker-a"].value == 0


def test_a_delay_offset_is_unknown_without_a_store_of_the_broker_name(directory: Path) -> None:
    write_run(made_up_run(), directory)
    shutil.rmtree(directory / "broker-a-s" / "store")
    finding = judge_directory(directory)[f"{AHEAD} broker-a"]
    assert finding.missing == "broker-a-s: its store was not given"


@pytest.mark.parametrize(("is_consumed", "missing"), [(False, 0), (True, 1)])
def test_a_table_that_was_never_written_is_empty(directory: Path, *, is_consumed: bool, missing: int) -> None:
    """A broker writes subscriptionGroup.json at its first consumer group."""
    run = MadeUpRun()
    run.send(1)
    if is_consumed:
        run.deliver(1, 0)
    write_run(run, directory)
    (directory / "broker-a" / "store" / "config" / "subscriptionGroup.json").unlink(missing_ok=True)
    assert judge_directory(directory)["groups_missing broker-a"].value == missing


def test_a_table_is_unknown_without_the_directory_of_tables(directory: Path) -> None:
    write_run(short_run(), directory)
    shutil.rmtree(directory / "broker-a" / "store" / "config")
    assert judge_directory(directory)["groups_missing broker-a"].missing == "subscriptionGroup.json could not be read"
