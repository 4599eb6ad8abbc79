"""Places without permission: named, and what rests on them is unknown."""

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.checks import judge_directory
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.verdict import Verdict
from tests.cluster.plant.smallrun import made_up_run, write_run

LOG_FILE = f"{0:020d}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(made_up_run(), tmp_path_factory.mktemp("unreadable") / "run")


def deny(monkeypatch: pytest.MonkeyPatch, denied: Path) -> None:
    """Take the permission to read one file or directory, also from the superuser."""

    def refuse(path: Any) -> None:
        if Path(os.fsdecode(path)) == denied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(denied))

    open_file, scan, names, access = os.open, os.scandir, os.listdir, os.access

    def open_unless_denied(path: Any, *args: Any, **kwargs: Any) -> int:
        refuse(path)
        return open_file(path, *args, **kwargs)

    def scan_unless_denied(path: Any = ".") -> Any:
        refuse(path)
        return scan(path)

    def list_unless_denied(path: Any = ".") -> list[Any]:
        refuse(path)
        return names(path)

    def is_allowed(path: Any, mode: int, **kwargs: Any) -> bool:
        return Path(os.fsdecode(path)) != denied and access(path, mode, **kwargs)

    monkeypatch.setattr(os, "open", open_unless_denied)
    monkeypatch.setattr(os, "scandir", scan_unless_denied)
    monkeypatch.setattr(os, "listdir", list_unless_denied)  # `Path.iterdir` has `scandir` since Python 3.13
    monkeypatch.setattr(os, "access", is_allowed)


def deny_entry(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Take the permission to enter a directory: `stat` of what is in it fails."""
    deny(monkeypatch, folder)
    for name in ("stat", "lstat", "open", "scandir", "listdir"):
        original = getattr(os, name)

        def refuse(path: Any = ".", *args: Any, call: Any = original, **kwargs: Any) -> Any:
            if not isinstance(path, int) and folder in Path(os.fsdecode(path)).parents:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(path))
            return call(path, *args, **kwargs)

        monkeypatch.setattr(os, name, refuse)


def newly_unknown(judgement: Judgement, before: Judgement) -> set[str]:
    return {one.metric for one in judgement if not one.is_known and before[one.metric].is_known}


@pytest.mark.parametrize(
    ("below", "metrics"),
    [
        ("consumequeue", {"dangling", "unqueued"}),
        ("consumequeue/orders", {"dangling", "unqueued"}),
        ("consumequeue/orders/1", {"dangling", "unqueued"}),
        (f"consumequeue/orders/1/{LOG_FILE}", {"dangling", "unqueued"}),
        ("index", {"unindexed"}),
        ("index/*", {"unindexed"}),
        ("config/topics.json", {"topics_missing"}),
        ("config/subscriptionGroup.json", {"groups_missing"}),
        ("config/delayOffset.json", {"delay_offset_ahead", "delay_offset_behind"}),
        ("config/consumerOffset.json", {"offset_file_ahead", "offset_file_behind"}),
    ],
)
def test_metrics_that_rest_on_an_unreadable_place_are_unknown_and_nothing_is_found(
    run: Path, monkeypatch: pytest.MonkeyPatch, below: str, metrics: set[str]
) -> None:
    before = judge_directory(run)
    store = run / "broker-a" / "store"
    (denied,) = store.glob(below)
    deny(monkeypatch, denied)
    judgement = judge_directory(run)
    assert newly_unknown(judgement, before) == {f"{metric} broker-a" for metric in metrics}
    assert [one.metric for one in judgement if one.value and one != before[one.metric]] == []
    (line,) = set(judgement.decision.warnings) - set(before.decision.warnings)
    assert line.startswith(f"broker-a: store/{denied.relative_to(store)} cannot be read")


@pytest.mark.parametrize("process", ["produce-1", "consume-1", "broker-a", "cluster"])
def test_an_unreadable_journal_is_a_gap(run: Path, monkeypatch: pytest.MonkeyPatch, process: str) -> None:
    deny(monkeypatch, run / "journal" / f"{process}.msgpack")
    judgement = judge_directory(run)
    assert judgement.verdict is Verdict.UNKNOWN
    assert f"journal/{process}.msgpack" in "; ".join(judgement.decision.why)
    done = CliRunner().invoke(app, ["check", str(run)], prog_name="rmqlab")
    assert done.exit_code == 2
    assert f"{process}.msgpack: no regular file that can be read" in done.stderr


def test_an_unreadable_log_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deny(monkeypatch, run / "broker-a" / "store" / "commitlog" / LOG_FILE)
    judgement = judge_directory(run)
    assert judgement.verdict is Verdict.UNKNOWN
    assert f"{LOG_FILE}: Permission denied" in "; ".join(judgement.decision.why)


def test_a_node_whose_directory_may_not_be_entered_is_named_and_the_run_is_judged(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` ended without a verdict."""
    deny_entry(monkeypatch, run / "broker-a")
    done = CliRunner().invoke(app, ["check", str(run)], prog_name="rmqlab")
    assert done.exit_code == 2
    store = run / "broker-a" / "store"
    assert done.stderr == f"rmqlab: {store}: Permission denied: expected the store of broker-a\n"
    # Since Python 3.13 `Path.is_dir` is False without the permission: the file below is then the first to be named.
    assert re.search(rf"{store}(/commitlog)?: Permission denied", done.stdout.replace("\n", ""))
