"""Odd things in the place of a user's input: one line that names it."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.cli.commands import LazyCommand
from tests.cluster.cli.test_damaged_places import CONTENTS, ODD
from tests.cluster.plant.smallrun import made_up_run, write_run

MORE: Mapping[str, Callable[[Path], object]] = {
    "missing": lambda _: None,
    "below a file": lambda path: path.symlink_to("/etc/passwd/x"),
    "zeros": lambda path: path.write_bytes(bytes(100)),
    "deep TOML": lambda path: path.write_bytes(b"a = " + b"[" * 200_000),
    "many digits": lambda path: path.write_bytes(b"rate = " + b"9" * 6000),
    "byte order mark": lambda path: path.write_bytes(b'\xef\xbb\xbfname = "x"\n'),
}
EVERY = {**ODD, **CONTENTS, **MORE}
each = pytest.mark.parametrize("kind", EVERY)


def error_of(*arguments: str) -> str:
    """Return the only line on stderr of a command that fails.

    The program itself makes such a line of an OSError.
    """
    done = CliRunner().invoke(app, arguments, prog_name="rmqlab")
    if isinstance(done.exception, OSError):
        return str(done.exception.filename)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code != 0
    (line,) = done.stderr.splitlines()
    assert "recursion" not in line
    assert "sys." not in line
    return line


@each
@pytest.mark.parametrize("command", ["run", "run --simulated", "compare", "hunt --seeds 1"])
def test_a_scenario(tmp_path: Path, kind: str, command: str) -> None:
    path = tmp_path / "odd.toml"
    EVERY[kind](path)
    assert str(path) in error_of(*command.split(), str(path))


@each
def test_a_file_in_a_directory_of_scenarios(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "odd.toml"
    EVERY[kind](path)
    named = tmp_path if kind == "missing" else path
    assert str(named) in error_of("scenarios", "--dir", str(tmp_path))


@each
@pytest.mark.parametrize("more", [[], ["--run"]])
def test_a_directory_of_scenarios(tmp_path: Path, kind: str, more: list[str]) -> None:
    path = tmp_path / "odd"
    EVERY[kind](path)
    assert str(path) in error_of("scenarios", "--dir", str(path), *more)


@each
@pytest.mark.parametrize("command", ["check", "plant", "events -n", "down -n", "up --detach -n", "logs broker-a -n"])
def test_a_run(tmp_path: Path, kind: str, command: str) -> None:
    path = tmp_path / "odd"
    EVERY[kind](path)
    more = ["tail-cut-slave"] if command == "plant" else []
    error = error_of(*command.split(), str(path), *more)
    assert path.is_symlink() or path.name in error


@pytest.mark.parametrize(
    "command", ["check", "audit", "report", "plant", "events -n", "logs broker-a -n", "diverged broker-a -n"]
)
@pytest.mark.parametrize("run", ["{home}/nowhere", "{home}/empty", "nobody"])
def test_a_run_that_does_not_exist_ends_with_the_status_of_a_wrong_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, run: str
) -> None:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    (tmp_path / "empty").mkdir()
    more = ["tail-cut-slave"] if command == "plant" else []
    words = [*command.split(), run.format(home=tmp_path), *more]
    done = CliRunner().invoke(app, words, prog_name="rmqlab")
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("rmqlab: ")


def test_a_run_of_a_user_that_does_not_exist() -> None:
    assert error_of("down", "-n", "~nobody-at-all/run").startswith("rmqlab: ~nobody-at-all/run: no user")


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(made_up_run(), tmp_path_factory.mktemp("small") / "run")


@each
@pytest.mark.parametrize(
    ("below", "words"),
    [
        ("journal", "journal-torn"),
        ("journal/produce-1.msgpack", "journal-torn --at produce-1"),
        ("broker-a-s/store/commitlog/00000000000000000000", "tail-cut-slave"),
        ("broker-a/store/config/topics.json", "topic-gone --at broker-a"),
    ],
)
def test_a_file_of_a_run_to_plant_in(small_run: Path, tmp_path: Path, kind: str, below: str, words: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    path = run / below
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    EVERY[kind](path)
    copy = tmp_path / "copy"
    done = CliRunner().invoke(app, ["plant", str(run), *words.split(), "--out", str(copy)], prog_name="rmqlab")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert len(done.stderr.splitlines()) == (1 if done.exit_code else 0)


def test_options_of_a_fault_are_named_as_on_the_command_line() -> None:
    line = error_of("fault", "link", "broker-a", "broker-a-s", "--kind", "latency")
    assert line.startswith("rmqlab: fault link --kind latency needs --millis: ")
    line = error_of("fault", "link", "broker-a", "broker-a-s", "--kind", "reset", "--millis", "3")
    assert line == "rmqlab: fault link --kind reset does not accept --millis; it has no options"


def test_a_run_is_named_by_its_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    run = write_run(made_up_run(), tmp_path / "runs" / "kill-master" / "20261122T000218Z")
    by_name, by_path = (CliRunner().invoke(app, ["check", one, "--json"]) for one in ("kill-master", str(run)))
    assert (by_name.exit_code, by_name.stdout) == (by_path.exit_code, by_path.stdout)
    assert '"verdict"' in by_name.stdout
    assert CliRunner().invoke(app, ["plant", "kill-master", "zeroed-one"]).exit_code == 0
    assert "did you mean kill-master?" in error_of("check", "kil-master")
    assert f"the scenario kill-master was run: --name {run}" in error_of("events", "--name", "kill-master")


@pytest.mark.parametrize("command", ["run", "repro"])
@pytest.mark.parametrize("more", [[], ["--simulated"]])
def test_a_run_that_cannot_begin_ends_with_the_status_of_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, more: list[str]
) -> None:
    """Status 1 would say that the claim is violated."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path / "file"))
    named = {"run": "kill-master", "repro": "ali#400"}[command]
    done = CliRunner().invoke(app, [command, named, *more])
    assert (done.exit_code, "cannot be created" in done.stderr) == (2, True), done.output


@pytest.mark.parametrize(
    ("more", "time"),
    [
        (["--rate", "5"], "time runs 5 times as fast"),
        (["--attach"], "in real time"),
        (["--simulated"], "simulated, in virtual time"),
        ([], "time runs 10 times as fast"),
    ],
)
def test_a_run_prints_its_own_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], time: str) -> None:
    """Not that of the file. The run ends after its head: it has no directory."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path / "file"))
    assert f"profile 4.9, {time}" in CliRunner().invoke(app, ["run", "kill-master", *more]).stdout


@pytest.mark.parametrize(
    ("raised", "text"),
    [(KeyboardInterrupt(), "interrupted: no result"), (OSError(28, "No space left"), "the disk or the output: ")],
)
@pytest.mark.parametrize(("command", "status"), [("check", 2), ("status", 1)])
def test_a_command_that_judges_ends_with_1_only_for_a_result(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException, text: str, command: str, status: int
) -> None:
    def fail(*_args: object, **_more: object) -> None:
        raise raised

    monkeypatch.setattr(LazyCommand, "make_context", fail)
    done = CliRunner().invoke(app, [command])
    assert done.exit_code == status
    assert (text in done.stderr) is (status == 2 or isinstance(raised, OSError))


NO_TEXT = "x\udcff"
"""What Python makes of the byte 0xff in an argument."""


@pytest.fixture
def silent_lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A supervisor that accepts connections."""
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    ours, theirs = socket.socketpair()
    monkeypatch.setattr("rmqlab.cluster.supervisor.command._connect", lambda _directory: ours)
    with ours, theirs:
        yield


@pytest.mark.usefixtures("silent_lab")
@pytest.mark.parametrize("words", ["mark", "kill", "wait ready", "heal", "isolate", "add slave", "events --kind"])
def test_bytes_that_are_no_text_are_named(words: str) -> None:
    done = CliRunner().invoke(app, [*words.split(), NO_TEXT])
    assert done.exit_code == 2
    assert done.stderr == "rmqlab: 'x\\udcff' is not valid text in this locale; expected UTF-8\n"


@pytest.mark.usefixtures("silent_lab")
def test_a_secret_that_is_no_text_is_not_shown() -> None:
    account = ["--access-key", "operator", "--secret-key", f"1234567{NO_TEXT}"]
    done = CliRunner().invoke(app, ["produce", *account])
    assert (done.exit_code, "1234567" in done.stderr) == (2, False)
    assert done.stderr == "rmqlab: the value of --secret-key is not valid text in this locale; expected UTF-8\n"


FULL = "rmqlab: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["--json-version"], ["kill", "--help"], ["fault", "-h"]])
def test_help_that_cannot_be_written_is_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "rmqlab.cluster", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, FULL)


SHORT_HUNT = ["hunt", "--claims", "slave-complete", "--faults", "wipe", "--switches", "ha_check_master"]
SHORT_HUNT += ["--seeds", "1", "--short", "--no-replay"]
"""Finds one failure, in a fraction of the time that all claims, faults and switches take."""


@pytest.mark.parametrize("words", [["hunt", "--list"], SHORT_HUNT, ["check", "--metrics", "--json"], ["scenarios"]])
def test_a_full_output_is_not_taken_for_a_file(tmp_path: Path, words: list[str]) -> None:
    """A hunt named its directory."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "rmqlab.cluster", *words]
        environment = {**os.environ, "RMQLAB_HOME": str(tmp_path)}
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False, env=environment
        )
    assert (done.returncode, done.stderr) == (2, FULL)
