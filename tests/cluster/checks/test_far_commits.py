"""Commits beyond their queue's end that only a journal has are named."""

import functools
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import MadeUpRun
from tests.cluster.plant.smallrun import QUEUES, SENDS, made_up_run, write_run

END = SENDS // QUEUES
"""The end of each queue."""


def insert(run: MadeUpRun, add: Callable[[], object]) -> None:
    """Add entries before the cluster stops."""
    place = next(index for index, one in enumerate(run.entries) if one.kind == "cluster_stopping")
    later, run.entries = run.entries[place:], run.entries[:place]
    run.now = run.entries[-1].at_millis
    add()
    gained = run.now - later[0].at_millis + 10
    run.entries += [attrs.evolve(one, at_millis=one.at_millis + max(0, gained)) for one in later]


def commit_far(run: MadeUpRun, offset: int = 500) -> None:
    """Commit beyond the queue's end, then its end again."""
    for one in (offset, END):
        insert(run, functools.partial(run.commit, one))


def lines(run: MadeUpRun, directory: Path) -> list[str]:
    warnings = judge_directory(write_run(run, directory / "run")).decision.warnings
    return [line for line in warnings if "the queue ends at" in line]


def test_a_commit_beyond_the_end_is_named(tmp_path: Path) -> None:
    run = made_up_run()
    commit_far(run)
    commit_far(run, 600)
    assert lines(run, tmp_path) == [
        "consume-1: shop committed offset 600 in orders@broker-a:0, and the queue ends at 20"
    ]


def test_a_queue_without_messages_ends_at_0(tmp_path: Path) -> None:
    run = made_up_run()
    insert(run, lambda: run.commit(1, queue_id=3))
    assert lines(run, tmp_path) == ["consume-1: shop committed offset 1 in orders@broker-a:3, and the queue ends at 0"]


def test_a_commit_of_the_end_is_no_finding(tmp_path: Path) -> None:
    run = made_up_run()
    commit_far(run, END)
    assert lines(run, tmp_path) == []


@pytest.mark.parametrize(
    ("node", "kind", "fields"),
    [
        ("broker-a", "offset_reset", {"group": "shop", "topic": "orders"}),
        ("broker-a", "topic_deleted", {"topic": "orders"}),
        ("broker-a-s", "power_lost", {}),
        ("broker-a", "log_truncated", {"had": 500, "end": 400}),
        ("", "fault_applied", {"id": "f1", "fault": "disk", "target": "broker-a"}),
    ],
)
def test_a_queue_that_may_have_been_longer_is_not_judged(
    tmp_path: Path, node: str, kind: str, fields: dict[str, object]
) -> None:
    run = made_up_run()
    commit_far(run)
    insert(run, lambda: run.add(node, kind, **fields))
    assert lines(run, tmp_path) == []


def test_other_faults_and_expired_files_are_no_reason(tmp_path: Path) -> None:
    run = made_up_run()
    commit_far(run)
    insert(run, lambda: run.add("", "fault_applied", id="f1", fault="link", target="broker-a"))
    insert(run, lambda: run.add("broker-a", "file_deleted", file="0"))
    assert len(lines(run, tmp_path)) == 1
