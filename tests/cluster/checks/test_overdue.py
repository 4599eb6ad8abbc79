"""Delayed and half messages that a master holds back beyond their time."""

import shutil
from pathlib import Path

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.verdict.overdue import op_crc
from tests.cluster.checks.heldruns import HELD, HELD_RUNS, HeldRun

METRIC = "overdue"


@pytest.mark.parametrize("held", HELD_RUNS.values(), ids=HELD_RUNS.keys())
def test_a_message_that_is_held_beyond_its_time_is_named(tmp_path: Path, held: HeldRun) -> None:
    found = judge_directory(held.write(tmp_path / "run"))[METRIC]
    assert found.value == held.value
    if held.value is not None:
        assert found.message_ids == (HELD,) * held.value
    assert held.words in (found.missing or "".join(piece.text for piece in found.evidence))


def test_a_half_message_is_not_judged_by_unknown_settings(tmp_path: Path) -> None:
    directory = HELD_RUNS["half, long waiting"].write(tmp_path / "run")
    (directory / "broker-a" / "config.toml").unlink()
    assert judge_directory(directory)[METRIC].missing == (
        "broker-a: its settings of transactions are unknown: config.toml cannot be read"
    )


def test_a_store_that_was_not_given_may_have_delivered_it(tmp_path: Path) -> None:
    directory = HELD_RUNS["delayed, long due"].write(tmp_path / "run")
    shutil.rmtree(directory / "broker-a-s" / "store")
    found = judge_directory(directory)[METRIC]
    assert not found.is_known
    assert found.missing.startswith("broker-a-s: ")


def test_a_run_that_holds_nothing_has_none(tmp_path: Path) -> None:
    found = judge_directory(HeldRun(topics=()).write(tmp_path / "run"))[METRIC]
    assert (found.value, found.is_at_least) == (0, False)


def test_the_checksum_of_an_outcome_is_that_of_its_record() -> None:
    assert len({op_crc(offset) for offset in range(1000)}) == 1000
