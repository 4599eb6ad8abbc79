"""Headers and due times of records that RocketMQ 4.9.8 stored."""

import gzip
from pathlib import Path
from typing import Any

import attrs
import pytest

from rmqlab.cluster.checks import duetimes, headers
from rmqlab.cluster.checks.clocks import find_misdated
from rmqlab.cluster.checks.copies import Copy, NodeStore, Stores, gather
from rmqlab.cluster.checks.history import History, read_history
from rmqlab.cluster.checks.storereader import read_store
from rmqlab.remoting.message import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from rmqlab.remoting.names import HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.headers import SENT_BITS

GOLDEN = Path(__file__).parents[2] / "golden" / "store" / "slave"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> NodeStore:
    root = tmp_path_factory.mktemp("real") / "store"
    for path in GOLDEN.rglob("*"):
        if path.is_file():
            target = root / path.relative_to(GOLDEN)
            target.parent.mkdir(parents=True, exist_ok=True)
            raw = path.read_bytes()
            target.with_suffix("" if path.suffix == ".gz" else path.suffix).write_bytes(
                gzip.decompress(raw) if path.suffix == ".gz" else raw
            )
    return read_store("broker-a", "broker-a", root)


def history_of(store: NodeStore) -> History:
    """Return the history of the clients that the records of the store come from."""
    first: dict[str, Copy] = {}
    for copy in store.copies:
        if copy.has_unique_id:
            first.setdefault(copy.message_id, copy)
    entries = []
    for copy in first.values():
        assert copy.header is not None
        sys_flag = copy.header.sys_flag & SENT_BITS
        sys_flag |= TRANSACTION_PREPARED if copy.queue.topic == HALF_TOPIC else 0
        topic = copy.real_topic or copy.queue.topic
        fields = {"message_id": copy.message_id, "topic": topic, "outcome": "SEND_OK", "sys_flag": sys_flag}
        entries.append(JournalEntry(copy.stored_at, "produce-1", "sent", fields))
    for copy in store.copies:
        if copy.header is not None and copy.queue.topic.startswith(RETRY_PREFIX):
            place = {"topic": copy.queue.topic, "broker": "broker-a", "queue": copy.queue.queue_id}
            times = {"offset": copy.offset, "reconsume_times": copy.header.reconsume_times}
            fields = {"message_id": copy.message_id, "group": "shop", **place, **times}
            entries.append(JournalEntry(copy.stored_at + 1, "consume-1", "delivered", fields))
    host = next(copy.header.store_host for copy in store.copies if copy.header)
    ready = {"broker_name": "broker-a", "broker_id": 0, "address": host}
    return read_history([JournalEntry(0, "broker-a", "node_ready", ready), *entries])


def judged(store: NodeStore, history: History) -> dict[str, tuple[str, ...]]:
    """Return the messages that each metric counts."""
    stores: Stores = gather([store], {})
    found = [*headers.judge(history, stores, Conditions()), *duetimes.judge(history, stores, Conditions())]
    return {finding.metric: finding.message_ids for finding in found}


def test_no_record_of_a_real_broker_is_counted(store: NodeStore) -> None:
    assert judged(store, history_of(store)) == {"header_disagreement": (), "delivered_early": ()}
    assert list(find_misdated(store.copies)) == []
    kinds = {kind_of(copy) for copy in store.copies}
    assert kinds == {"plain", "half", "committed", "retried", ""}
    assert any(copy.queue.topic == SCHEDULE_TOPIC for copy in store.copies)


@pytest.mark.parametrize(
    "changes",
    [{"sys_flag": 1}, {"sys_flag": 4}, {"sys_flag": 12}, {"reconsume_times": 9}, {"store_host": "10.9.8.7:1"}],
)
@pytest.mark.parametrize("kind", ["plain", "half", "committed", "retried"])
def test_each_change_of_a_real_record_is_counted(store: NodeStore, kind: str, changes: dict[str, Any]) -> None:
    history = history_of(store)
    at = next(number for number, copy in enumerate(store.copies) if kind_of(copy) == kind)
    copies = list(store.copies)
    header = copies[at].header
    assert header is not None
    copies[at] = attrs.evolve(copies[at], header=attrs.evolve(header, **changes))
    found = judged(attrs.evolve(store, copies=tuple(copies)), history)["header_disagreement"]
    is_without_evidence = kind == "retried" and "sys_flag" in changes
    assert found == (() if is_without_evidence else (copies[at].message_id,))


@pytest.mark.parametrize("kind", ["plain", "half", "committed", "retried"])
def test_another_prepared_offset_of_a_real_record_is_counted(store: NodeStore, kind: str) -> None:
    history = history_of(store)
    at = next(number for number, copy in enumerate(store.copies) if kind_of(copy) == kind)
    copies = list(store.copies)
    copies[at] = attrs.evolve(copies[at], prepared_at=copies[at].prepared_at + 77)
    found = judged(attrs.evolve(store, copies=tuple(copies)), history)["header_disagreement"]
    assert found == (copies[at].message_id,)


def kind_of(copy: Copy) -> str:
    assert copy.header is not None
    if not copy.has_unique_id:
        return ""
    if copy.header.sys_flag & TRANSACTION_COMMIT:
        return "committed"
    if copy.queue.topic.startswith(RETRY_PREFIX):
        return "retried"
    return {HALF_TOPIC: "half", "StoreTopic": "plain"}.get(copy.queue.topic, "")
