"""Odd directories of clusters, and users without a home directory: one line."""

import os
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.hunt.hunt import Hunt
from rmqlab.nameserver.config import NameserverConfig
from rmqlab.store.config import StoreConfig


def error_of(words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, words.split(), prog_name="rmqlab")
    assert isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stderr


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RMQLAB_HOME", raising=False)
    monkeypatch.setattr(Path, "home", fail)


@pytest.mark.usefixtures("no_home")
@pytest.mark.parametrize(
    "words", ["ls", "status", "up", "up --detach", "check", "run kill-master", "hunt --seeds 1", "produce", "demo"]
)
def test_a_user_without_a_home_directory(words: str) -> None:
    text = "rmqlab: this user has no home directory: set RMQLAB_HOME to a directory for clusters\n"
    assert error_of(words) == (2, text)


@pytest.mark.usefixtures("no_home")
def test_servers_need_no_home_directory() -> None:
    assert StoreConfig().store_path_root_dir == Path.cwd() / "store"
    assert NameserverConfig().kv_config_path == str(Path.cwd() / "namesrv" / "kvConfig.json")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("up", os.fsdecode(b"x\xff")),
        ("up --detach", os.fsdecode(b"x\xff")),
        ("up --detach", "x\ny"),
        ("run --simulated kill-master", os.fsdecode(b"x\xff")),
    ],
)
def test_a_path_that_messages_cannot_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, name: str
) -> None:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path / name))
    status, text = error_of(words)
    assert (status, text.count("Traceback")) == (2 if "run" in words else 1, 0)
    assert "expected a path in UTF-8, without line breaks and control characters (see RMQLAB_HOME)" in text
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("words", ["scenarios --run", "hunt --seeds 1", "hunt --seeds 1 --dir {}/file/found"])
def test_a_place_without_room_for_runs_is_rejected_before_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path if "--dir" in words else tmp_path / "file"))
    monkeypatch.setattr(trio, "run", None)
    monkeypatch.setattr(Hunt, "run", None)
    status, text = error_of(words.format(tmp_path))
    assert (status, text.count("\n")) == (2, 1)
    assert text.startswith(f"rmqlab: {tmp_path}/file/")
    assert "directory" in text


def test_a_file_in_the_place_of_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path / "file"))
    home = tmp_path / "file"
    assert error_of("up --detach") == (
        1,
        f"rmqlab: cannot create {home}/default: {home} is not a directory (see RMQLAB_HOME)\n",
    )


def test_a_list_of_clusters_names_a_home_that_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path / "file"))
    assert CliRunner().invoke(app, ["ls"]).exit_code == 0
    (tmp_path / "file").touch()
    text = f"rmqlab: {tmp_path}/file is not a directory: expected that of the clusters (see RMQLAB_HOME)\n"
    assert error_of("ls") == (1, text)
