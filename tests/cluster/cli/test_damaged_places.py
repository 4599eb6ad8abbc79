"""Damaged records, paths that cannot be used, full disks: one line on stderr."""

import errno
import json
import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.checks.testing import MadeUpRun, write_journals
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.fork.ownmodules import module_command
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, place
from rmqlab.verdict.verdict import Verdict
from tests.cluster.plant.smallrun import made_up_run, write_run

RECORDS = {
    "empty": b"",
    "cut": b'{"version": 1, "spec": {"name',
    "deep": b"[" * 100_000,
    "huge number": b'{"version": %s}' % (b"9" * 6000),
    "null": b"null",
    "list": b"[1, 2]",
    "other types": b'{"version": null, "spec": 5, "placement": "x", "clock_millis": {}}',
    "no UTF-8": b'{"\xff": 1}',
}
FULL = Path("/dev/full")


def run_here(home: Path, *arguments: str) -> tuple[int, str]:
    """As `run`, in this process.

    Not for failures of paths: the program reports those in its last frame.
    """
    done = CliRunner(env={"RMQLAB_HOME": str(home)}).invoke(app, arguments, prog_name="rmqlab")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stderr


def run(home: Path, *arguments: str) -> tuple[int, str]:
    """Return exit status and stderr of a command."""
    done = subprocess.run(
        module_command("rmqlab.cluster", *arguments),
        env={**os.environ, "RMQLAB_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("content", "command"),
    [
        *((content, "status") for content in RECORDS.values()),
        (b"{", "up --detach"),
        (b"{", "logs broker-a"),
        (b"{", "diff broker-a:master broker-a:slave"),
    ],
    ids=[*RECORDS, "up", "logs", "diff"],
)
def test_a_damaged_record_is_one_line_that_names_it(tmp_path: Path, content: bytes, command: str) -> None:
    record = tmp_path / "default" / "cluster.json"
    record.parent.mkdir()
    record.write_bytes(content)
    status, error = run(tmp_path, *command.split())
    assert status in (1, 2)
    assert error.startswith(f"rmqlab: {record} is damaged: expected the record that `rmqlab up` writes"), error
    assert len(error.splitlines()) == 1
    assert record.read_bytes() == content


def test_a_damaged_record_does_not_disturb_other_clusters(tmp_path: Path) -> None:
    for name, content in RECORDS.items():
        (tmp_path / name.replace(" ", "-")).mkdir()
        (tmp_path / name.replace(" ", "-") / "cluster.json").write_bytes(content)
    assert run_here(tmp_path, "up", "--name", "x", "--slaves", "0", "--detach") == (0, "")
    try:
        status, errors = run_here(tmp_path, "ls")
    finally:
        assert run_here(tmp_path, "down", "--name", "x") == (0, "")
    assert (status, len(errors.splitlines())) == (0, len(RECORDS))
    for name in RECORDS:
        assert f"rmqlab: {tmp_path / name.replace(' ', '-') / 'cluster.json'} is damaged: " in errors


@pytest.mark.parametrize(
    "path", ["supervisor.log", "supervisor.lock", "forkserver.log", "control.sock", "command.sock", "control.json"]
)
def test_a_directory_in_the_place_of_a_file_is_named(tmp_path: Path, path: str) -> None:
    place = tmp_path / "default" / path
    place.mkdir(parents=True)
    error = (1, f"rmqlab: {place}: Is a directory\n")
    assert run(tmp_path, "up", "--slaves", "0", "--control", "127.0.0.1:0", "--detach") == error


def test_a_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    status, error = run(tmp_path / ("x" * 300), "up", "--detach")
    assert (status, error.count("\n")) == (1, 1)
    assert error.endswith("File name too long\n")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("more", [["--detach"], ["--plain"]])
def test_a_full_disk_is_one_line(tmp_path: Path, more: list[str]) -> None:
    """The log of the supervisor and the record of the cluster accept no byte."""
    (tmp_path / "default").mkdir()
    for name in ("supervisor.log", "cluster.json.new"):
        (tmp_path / "default" / name).symlink_to(FULL)
    place = tmp_path / "default"
    assert run(tmp_path, "up", *more) == (1, f"rmqlab: {place}: No space left on device\n")


def test_documents_of_a_damaged_record_are_not_made_up(tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "cluster.json").write_text(json.dumps({"version": 1}))
    assert run_here(tmp_path, "status", "--json")[0] == 1


@pytest.mark.parametrize(
    ("path", "command"),
    [
        *(("cluster.json", command) for command in ("up --detach", "status", "logs broker-a", "ls")),
        *(("supervisor.lock", command) for command in ("up --detach", "status", "down")),
        ("supervisor.log", "up --detach"),
        ("forkserver.log", "up --detach"),
        ("broker-a/node.log", "up --detach"),
    ],
)
def test_a_pipe_in_the_place_of_a_file_is_one_line(tmp_path: Path, path: str, command: str) -> None:
    """To open it would wait for a program at its other end."""
    place = tmp_path / "default" / path
    place.parent.mkdir(parents=True)
    os.mkfifo(place)
    status, error = run(tmp_path, *command.split())
    if command != "ls":  # other clusters are listed nevertheless
        assert status != 0
        assert error.startswith(f"rmqlab: {place}"), error
        assert len(error.splitlines()) == 1


@pytest.mark.parametrize("words", ["rmqlab.broker", "rmqlab.nameserver", "rmqlab.cluster run"])
def test_a_pipe_in_the_place_of_settings_or_of_a_scenario_is_one_line(tmp_path: Path, words: str) -> None:
    pipe = tmp_path / "x.toml"
    os.mkfifo(pipe)
    module, *more = words.split()
    done = subprocess.run(
        module_command(module, *more, str(pipe)), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert str(pipe) in line


def make_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


ODD: Mapping[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "socket": make_socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
}
each_odd = pytest.mark.parametrize("make", ODD.values(), ids=ODD)


@pytest.mark.parametrize("command", ["down", "mark x"])
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("pipe", "a pipe"),
        ("directory", "a directory"),
        ("socket", "a socket"),
        ("device", "a device"),
        ("loop", "a loop of links"),
        ("dangling", "a link to a missing file"),
    ],
)
def test_a_record_that_is_no_file_is_named_with_its_kind(tmp_path: Path, kind: str, what: str, command: str) -> None:
    record = tmp_path / "default" / "cluster.json"
    record.parent.mkdir()
    ODD[kind](record) if kind in ODD else record.symlink_to("missing")
    status, error = run_here(tmp_path, *command.split())
    assert (status, error) == (1, f"rmqlab: {record} is {what}: expected the file that `rmqlab up` writes\n")
    assert os.path.lexists(record)
    assert run_here(tmp_path, "down", "--purge") == (0, "")
    assert not record.parent.exists()


@each_odd
def test_a_lock_that_is_no_file_costs_only_the_line_of_its_cluster(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    for name in ("odd", "sound"):
        ClusterDirectory(tmp_path / name).create()
        spec = ClusterSpec(name=name)
        ClusterDirectory(tmp_path / name).write_record(Record(spec=spec, placement=place(spec, Placement())))
    make(tmp_path / "odd" / "supervisor.lock")
    done = CliRunner(env={"RMQLAB_HOME": str(tmp_path)}).invoke(app, ["ls", "--json"], prog_name="rmqlab")
    assert {one["name"]: one["state"] for one in json.loads(done.stdout)} == {"odd": "unknown", "sound": "stopped"}
    assert done.stderr.startswith(f"rmqlab: {tmp_path}/odd/supervisor.lock: ")
    assert len(done.stderr.splitlines()) == 1
    assert done.exit_code == 0


@pytest.mark.parametrize("where", ["odd", "runs", "runs/kill-master"])
def test_a_directory_that_may_not_be_entered_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """`ls` said that there are no clusters."""
    denied = tmp_path / where
    (tmp_path / "odd").mkdir()
    (tmp_path / "runs" / "kill-master").mkdir(parents=True)
    scan, access = os.scandir, os.access

    def scan_unless_denied(path: Any = ".") -> Any:
        if Path(path) == denied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_unless_denied)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != denied and access(path, mode))
    done = CliRunner(env={"RMQLAB_HOME": str(tmp_path)}).invoke(app, ["ls"], prog_name="rmqlab")
    assert done.stderr.startswith(f"rmqlab: {denied}: Permission denied: ")
    assert done.exit_code == 0


def test_without_access_to_the_home_ls_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(path: Any = ".") -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "scandir", deny)
    for words in (["ls"], ["ls", "--json"]):
        done = CliRunner(env={"RMQLAB_HOME": str(tmp_path)}).invoke(app, words, prog_name="rmqlab")
        assert done.stderr == f"rmqlab: {tmp_path}: Permission denied: its clusters cannot be listed\n"
        assert (done.stdout, done.exit_code) == ("", 1)


@each_odd
def test_a_journal_that_is_no_file_is_a_gap_and_a_line(tmp_path: Path, make: Callable[[Path], object]) -> None:
    run = MadeUpRun()
    run.send(1)
    run.add("produce-1", "node_stopped")
    write_journals(run.entries, tmp_path / "run" / "journal")
    odd = tmp_path / "run" / "journal" / "produce-1.msgpack"
    odd.unlink()
    make(odd)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "run"), "--json"], prog_name="rmqlab")
    assert done.stderr == f"rmqlab: {odd}: no regular file that can be read: expected the journal of produce-1\n"
    assert "journal/produce-1.msgpack is missing, unreadable, or no regular file" in json.loads(done.stdout)["why"][0]
    assert done.exit_code == Verdict.UNKNOWN.exit_status


STORE_PLACES = (
    "store",
    "store/commitlog",
    "store/commitlog/00000000000000000000",
    "store/consumequeue",
    "store/consumequeue/orders/0/00000000000000000000",
    "store/index",
    "store/config/topics.json",
)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(made_up_run(), tmp_path_factory.mktemp("small") / "run")


def put(path: Path, make: Callable[[Path], object]) -> None:
    """Put something odd in the place of a file or directory."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    make(path)


def dangle(path: Path) -> None:
    path.symlink_to("nowhere")


def grow(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**30)


CONTENTS: Mapping[str, Callable[[Path], object]] = {
    "dangling link": dangle,
    "empty": Path.touch,
    "random": lambda path: path.write_bytes(random.Random(1).randbytes(5000)),
    "no UTF-8": lambda path: path.write_bytes(b'{"\xff": 1}'),
    "deep": lambda path: path.write_bytes(b"[" * 200_000),
    "huge number": lambda path: path.write_bytes(b'{"version": ' + b"9" * 6000 + b"}"),
    "a sparse gigabyte": grow,
}


@pytest.mark.parametrize("below", STORE_PLACES)
def test_an_odd_entry_of_a_store_is_unknown_and_a_line_that_names_it(
    small_run: Path, tmp_path: Path, below: str
) -> None:
    for number, (name, make) in enumerate({**ODD, **CONTENTS}.items()):
        run = tmp_path / str(number)
        shutil.copytree(small_run, run)
        put(run / "broker-a" / below, make)
        done = CliRunner().invoke(app, ["check", str(run), "--json"], prog_name="rmqlab")
        assert done.exception is None or isinstance(done.exception, SystemExit), (name, done.exception)
        assert done.exit_code != Verdict.VIOLATED.exit_status or name == "random", name
        is_of_kind = name == "directory" and (run / "broker-a" / below).parent.is_dir() and "." not in below
        if name in ODD and not below.endswith(".json") and not (is_of_kind and "0000" not in below):
            assert f"rmqlab: {run / 'broker-a' / below}: not a " in done.stderr, name
            assert len(done.stderr.splitlines()) == 1, name
        shutil.rmtree(run)
