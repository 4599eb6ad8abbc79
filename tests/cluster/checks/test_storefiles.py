"""Damage to queues, index and tables of a real store, and the resulting findings."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqlab.cluster.checks import judge_run
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.message import PROPERTY_DELAY, java_hash
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import SOME_DAY, ManualClock, new_message, small_config
from rmqlab.verdict.findings import Findings

COUNT = 12
RECORDS = 2 * COUNT
"""With a delayed message after each."""
Damage = Callable[[Path], None]


@pytest.fixture
def judge(tmp_path: Path) -> Callable[..., Findings]:
    """Return a judge of one broker with messages in two queues of `orders`, damaged."""

    def judge(damage: Damage = lambda _: None, end: str = "node_stopped", *, is_expired: bool = False) -> Findings:
        run = MadeUpRun(nodes=("namesrv-1", "broker-a"))
        store = MessageStore.open(small_config(tmp_path), now_millis=ManualClock(now=run.now, step=1))
        for number in range(COUNT):
            store.put(new_message(queue_id=number % 2, unique_key=f"ID{number:06}", tags="new"))
            delay = {PROPERTY_DELAY: "1"}
            store.put(new_message(topic=SCHEDULE_TOPIC, tags="new", unique_key=f"LATER{number}", properties=delay))
        store.dispatch()
        store.close()
        write_tables(tmp_path, offset=COUNT // 2)
        damage(tmp_path)
        run.wait(60)
        if is_expired:
            run.add("broker-a", "file_deleted", file=f"commitlog/{0:020d}")
        run.add("broker-a", end)
        return judge_run(run.entries, {"broker-a": tmp_path})

    return judge


def write_tables(root: Path, *, offset: int, topic: str = "orders") -> None:
    (root / "config").mkdir(exist_ok=True)
    topics = TopicConfigSerializeWrapper(
        topic_config_table={topic: TopicConfig(topic_name=topic)}, data_version=DataVersion()
    )
    (root / "config" / "topics.json").write_bytes(topics.encode())
    offsets = ConsumerOffsets(offset_table={"orders@shop": {0: offset}})
    (root / "config" / "consumerOffset.json").write_bytes(offsets.encode())


def values(findings: Findings) -> dict[str, float | None]:
    """Return the non-zero metrics of a store's files."""
    names = ("corrupt", "dangling", "unqueued", "unindexed", "topics_missing", "offset_file_ahead")
    found = {name: findings[f"{name} broker-a"].value for name in names}
    return {name: value for name, value in found.items() if value != 0}


def drop_last_entry(root: Path) -> None:
    path = root / "consumequeue" / "orders" / "1" / f"{0:020d}"
    entries = bytearray(path.read_bytes())
    at = (COUNT // 2 - 1) * QUEUE_ENTRY_SIZE
    entries[at : at + QUEUE_ENTRY_SIZE] = bytes(QUEUE_ENTRY_SIZE)
    path.write_bytes(entries)


def test_a_whole_store_has_no_fault(judge: Callable[..., Findings]) -> None:
    assert values(judge()) == {}


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        pytest.param(drop_last_entry, {"unqueued": 1}, id="the last entry of a queue is missing"),
        pytest.param(
            lambda root: shutil.rmtree(root / "consumequeue"), {"dangling": None, "unqueued": RECORDS}, id="no queues"
        ),
        pytest.param(lambda root: shutil.rmtree(root / "index"), {"unindexed": RECORDS}, id="no index"),
        pytest.param(
            lambda root: write_tables(root, offset=COUNT // 2 + 7), {"offset_file_ahead": 7}, id="offset beyond the end"
        ),
        pytest.param(lambda root: write_tables(root, offset=1, topic="other"), {"topics_missing": 1}, id="topic gone"),
    ],
)
def test_each_kind_of_damage_is_found_and_nothing_else(
    judge: Callable[..., Findings], damage: Damage, expected: dict[str, int | None]
) -> None:
    assert values(judge(damage)) == expected


def leave_an_empty_log(root: Path) -> None:
    """A full disk deletes all messages, and leaves the next file empty."""
    (first,) = (root / "commitlog").iterdir()
    size = first.stat().st_size
    first.unlink()
    (root / "commitlog" / f"{size:020d}").write_bytes(bytes(size))


def test_entries_below_a_log_without_records_are_expired(judge: Callable[..., Findings]) -> None:
    assert values(judge(leave_an_empty_log, is_expired=True)) == {}


def set_tags_code(root: Path, code: int, topic: str = "orders") -> None:
    """Change the tags code of the third entry of a queue."""
    path = root / "consumequeue" / topic / "0" / f"{0:020d}"
    entries = bytearray(path.read_bytes())
    entries[3 * QUEUE_ENTRY_SIZE - 8 : 3 * QUEUE_ENTRY_SIZE] = code.to_bytes(8, "big", signed=True)
    path.write_bytes(entries)


@pytest.mark.parametrize("code", [0, java_hash("old"), java_hash("new") + 2**32])
def test_an_entry_with_a_wrong_tags_code_is_found(judge: Callable[..., Findings], code: int) -> None:
    findings = judge(lambda root: set_tags_code(root, code))
    assert values(findings) == {"dangling": 1}
    assert findings["dangling broker-a"].message_ids == ("ID000004",)
    assert f"tags code {code}, expected {java_hash('new')}" in findings["dangling broker-a"].evidence[0].text


@pytest.mark.parametrize(("code", "expected"), [(SOME_DAY - 1, {"dangling": 1}), (SOME_DAY + 10**6, {})])
def test_a_delayed_message_is_due_at_any_time_after_it_was_stored(
    judge: Callable[..., Findings], code: int, expected: dict[str, int]
) -> None:
    assert values(judge(lambda root: set_tags_code(root, code, SCHEDULE_TOPIC))) == expected


def test_tags_codes_of_records_with_damaged_bodies_prove_nothing(judge: Callable[..., Findings]) -> None:
    def damage(root: Path) -> None:
        set_tags_code(root, 0)
        path = root / "commitlog" / f"{0:020d}"
        log = path.read_bytes()
        at = log.index(b"ID000004")
        body_at = log.rindex(b"hello", 0, at)
        path.write_bytes(log[:body_at] + b"jello" + log[body_at + 5 :])

    assert values(judge(damage)) == {"corrupt": 1}


def test_the_message_without_an_entry_is_named(judge: Callable[..., Findings]) -> None:
    assert judge(drop_last_entry)["unqueued broker-a"].message_ids == (f"ID{COUNT - 1:06}",)


def test_a_killed_broker_may_not_have_entered_its_last_records(judge: Callable[..., Findings]) -> None:
    assert values(judge(drop_last_entry, "node_killed")) == {"unqueued": None, "unindexed": None}
