"""Offsets that nobody committed: named, unless something explains them."""

from pathlib import Path

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import MadeUpRun
from tests.cluster.plant.smallrun import QUEUES, SENDS, made_up_run, write_run

END = SENDS // QUEUES
"""The end of each queue, and the offset in the files."""


def uncommitted(run: MadeUpRun, count: int = 6) -> None:
    """Remove the last commits of each queue: nobody committed what the file has."""
    last = range(END - count + 1, END + 1)
    run.entries = [one for one in run.entries if one.kind != "committed" or one.fields["offset"] not in last]


def lines(run: MadeUpRun, directory: Path) -> list[str]:
    warnings = judge_directory(write_run(run, directory / "run")).decision.warnings
    return [line for line in warnings if "consumerOffset.json" in line]


def test_an_uncommitted_offset_is_named_at_master_and_slave(tmp_path: Path) -> None:
    run = made_up_run()
    uncommitted(run)
    found = lines(run, tmp_path)
    for node, line in zip(("broker-a", "broker-a-s"), found, strict=True):
        assert line.startswith(f"{node}: config/consumerOffset.json: shop has offset 20 in orders@broker-a:")
        assert "committed more than 14: it skips up to 6 messages" in line


def test_the_last_commit_is_no_finding(tmp_path: Path) -> None:
    assert lines(made_up_run(), tmp_path) == []


@pytest.mark.parametrize(
    ("node", "kind", "fields"),
    [
        ("broker-a", "offset_reset", {"group": "shop", "topic": "orders"}),
        ("", "operated", {"operation": "reset-offset group=shop", "result": {"group": "shop"}}),
        ("broker-a", "consumer_joined", {"group": "shop", "client_id": "10.0.0.9@7#1"}),
        ("broker-a", "topic_deleted", {"topic": "orders"}),
        ("consume-1", "node_killed", {"pid": 101}),
    ],
)
def test_an_explained_rollback_is_no_finding(tmp_path: Path, node: str, kind: str, fields: dict[str, object]) -> None:
    run = made_up_run()
    uncommitted(run)
    place = next(index for index, one in enumerate(run.entries) if one.kind == "cluster_stopping")
    later, run.entries = run.entries[place:], run.entries[:place]
    run.now = run.entries[-1].at_millis
    run.add(node, kind, **fields)
    run.entries += [one for one in later if (one.node, kind) != ("consume-1", "node_killed")]
    assert lines(run, tmp_path) == []


def test_a_member_of_the_cluster_is_no_outside_client(tmp_path: Path) -> None:
    run = made_up_run()
    uncommitted(run)
    place = next(index for index, one in enumerate(run.entries) if one.kind == "delivered")
    joined = MadeUpRun().add("broker-a", "consumer_joined", group="shop", client_id="127.0.0.1@101#1")
    run.entries.insert(place, joined)
    assert len(lines(run, tmp_path)) == 2
