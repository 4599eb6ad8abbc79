"""Divergence planted in real files, found at its first byte, as byte comparison."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqlab.cluster.checks import judge_run
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config
from rmqlab.verdict.findings import Findings

Judge = Callable[[list[str], list[str]], tuple[Findings, list[bytes]]]


@pytest.fixture
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Writes two logs with a message for each id, and judges.

    Returns the written bytes of both, too.
    """

    def judge(master: list[str], slave: list[str]) -> tuple[Findings, list[bytes]]:
        roots, logs = {}, []
        for node, ids in (("broker-a", master), ("broker-a-s", slave)):
            root = roots[node] = tmp_path_factory.mktemp(node)
            store = MessageStore.open(small_config(root), now_millis=ManualClock(step=1))
            for message_id in ids:
                store.put(new_message(unique_key=message_id))
            end = store.max_commit_log_offset
            store.close()
            logs.append(log_bytes(root)[:end])
        return judge_run(MadeUpRun().entries, roots), logs

    return judge


def log_bytes(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((root / "commitlog").glob("*")))


def test_equal_logs_do_not_diverge(judge: Judge) -> None:
    findings, _ = judge(["A", "B", "C"], ["A", "B", "C"])
    for metric in ("divergence", "behind", "ahead"):
        assert findings[f"{metric} broker-a-s"].value == 0


def test_a_slave_that_ends_earlier_is_behind_and_does_not_diverge(judge: Judge) -> None:
    findings, (master, slave) = judge(["A", "B", "C"], ["A", "B"])
    assert findings["behind broker-a-s"].value == len(master) - len(slave)
    assert findings["ahead broker-a-s"].value == 0
    assert findings["divergence broker-a-s"].value == 0


def test_other_messages_at_the_same_offsets_are_found_with_those_of_either_side(judge: Judge) -> None:
    """As after a power loss: the master stored new messages in place of lost ones."""
    findings, (master, slave) = judge(["A", "B", "NEW1"], ["A", "B", "OLD1", "OLD2"])
    finding = findings["divergence broker-a-s"]
    first = next(at for at, (ours, theirs) in enumerate(zip(master, slave, strict=False)) if ours != theirs)
    assert finding.value == 3
    assert finding.text == f"3 bytes differ, the first at offset {first}"
    assert finding.message_ids == ("NEW1", "OLD1")
    (piece,) = finding.evidence
    assert "its master has NEW1, broker-a-s has OLD1" in piece.text
    assert findings["ahead broker-a-s"].value == len(slave) - len(master)


def test_a_message_that_both_have_with_different_bytes_is_named_once(tmp_path: Path) -> None:
    roots = {"broker-a": tmp_path / "master", "broker-a-s": tmp_path / "slave"}
    for root, body in zip(roots.values(), (b"one", b"two"), strict=True):
        store = MessageStore.open(small_config(root), now_millis=ManualClock(step=1))
        store.put(new_message(unique_key="A", body=body))
        store.close()
    (piece,) = judge_run(MadeUpRun().entries, roots)["divergence broker-a-s"].evidence
    assert piece.text == "commit log offset 0: its master and broker-a-s have A, with different bytes"
    assert piece.message_ids == ("A",)


def test_without_both_stores_nothing_is_known(tmp_path: Path) -> None:
    finding = judge_run(MadeUpRun().entries, {"broker-a": tmp_path})["divergence broker-a-s"]
    assert finding.value is None
    assert "broker-a-s: its store was not given" in finding.missing


ids = st.lists(st.sampled_from(["A", "B", "C"]), max_size=6)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(master=ids, slave=ids)
def test_figures_are_those_of_comparing_byte_by_byte(judge: Judge, master: list[str], slave: list[str]) -> None:
    findings, (ours, theirs) = judge(master, slave)
    common = min(len(ours), len(theirs))
    differing = [at for at in range(common) if ours[at] != theirs[at]]
    assert findings["divergence broker-a-s"].value == len(differing)
    assert findings["behind broker-a-s"].value == max(0, len(ours) - len(theirs))
    assert findings["ahead broker-a-s"].value == max(0, len(theirs) - len(ours))
