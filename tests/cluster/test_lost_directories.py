"""A cluster whose directory is removed or renamed while it runs."""

import json
import os
import select
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.lab import open_cluster
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    return tmp_path


def rmqlab(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, prog_name="rmqlab")
    assert result.exit_code == 0, result.stderr
    return result.stdout


def up() -> int:
    """Start the cluster; return the process id of its supervisor."""
    rmqlab("up", "-n", "shop", "--slaves", "0", "--detach")
    return int(ClusterDirectory.named("shop").supervisor_pid())


def ends(supervisor: int, lose: Callable[[], object]) -> None:
    """Remove or rename the directory, and wait until the supervisor has ended."""
    process = os.pidfd_open(supervisor)
    lose()
    select.select([process], [], [])
    os.close(process)


def test_a_cluster_ends_and_leaves_nothing_when_its_directory_is_removed(home: Path) -> None:
    ends(up(), lambda: shutil.rmtree(home / "shop"))
    assert not any(home.iterdir())


def test_a_cluster_does_not_change_the_one_that_has_taken_its_path(home: Path) -> None:
    first = up()

    def replace() -> None:
        (home / "shop").rename(home / "kept")
        assert up() != first

    ends(first, replace)
    assert "shop was removed or renamed" in (home / "kept" / "supervisor.log").read_text()
    seen = json.loads(rmqlab("status", "-n", "shop", "--json"))
    assert {node["state"] for node in seen["nodes"]} == {"ready"}
    record = ClusterDirectory.named("shop").read_record()
    assert record is not None
    assert seen["namesrv_addr"].split(".")[2] == str(record.placement.subnet)
    rmqlab("down", "-n", "shop", "--purge")


def test_a_lock_that_cannot_be_read_is_not_lost(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ClusterDirectory.named("shop")
    place.create()
    with place.locked():
        assert not place.is_lost()
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files")))
            assert not place.is_lost()
        (home / "shop" / "supervisor.lock").unlink()
        assert place.is_lost()


async def test_a_node_whose_journal_cannot_be_opened_says_so_in_one_line(home: Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=home / "x") as cluster:
        await cluster.kill("broker-a")
        shutil.rmtree(home / "x" / "journal")
        with pytest.raises(NodeFailedError) as raised:
            await cluster.start("broker-a")
    (words,) = [line for line in str(raised.value).splitlines() if "broker-a.msgpack" in line]
    assert words.endswith(f"broker-a: {home}/x/journal/broker-a.msgpack: No such file or directory")
    assert "Traceback" not in str(raised.value)
