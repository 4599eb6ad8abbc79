"""Copies of stores in a run's directory that no process of the run has."""

import shutil
from pathlib import Path

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.verdict.runrecord import NO_RECORD
from rmqlab.verdict.straystores import stray_stores
from rmqlab.verdict.verdict import Verdict
from tests.cluster.plant.smallrun import made_up_run, write_run


def test_a_copy_of_a_store_is_named_and_does_not_count(tmp_path: Path) -> None:
    run = made_up_run()
    for copies in run.logs.values():
        copies.pop(0)
    directory = write_run(run, tmp_path / "run")
    assert judge_directory(directory)["lost"].value == 1
    whole = write_run(made_up_run(), tmp_path / "whole")
    shutil.copytree(whole / "broker-a" / "store", directory / "broker-a.bak" / "store")
    judged = judge_directory(directory)
    assert judged["lost"].value == 1
    assert judged.verdict is Verdict.VIOLATED
    assert "missing broker-a.bak" not in judged.by_metric
    stray = "broker-a.bak/store: a store, but broker-a.bak is no process of this run: its records do not count"
    assert stray in judged.decision.warnings


@pytest.mark.parametrize(
    ("named", "strays"),
    [({"broker-a"}, {"copy"}), ({"", "broker-a", "copy"}, set()), ({"", "produce-1"}, set()), (set(), set())],
)
def test_a_store_is_stray_if_others_are_named(named: set[str], strays: set[str]) -> None:
    """If no store is named, the journals are of another run, or gone."""
    assert stray_stores(["broker-a", "copy"], named, NO_RECORD) == strays
