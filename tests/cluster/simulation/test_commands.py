"""`rmqlab run --simulated`: its output, and what it rejects."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.cli import playall, scenario
from rmqlab.simulation.child import ChildEndedError
from tests.cluster.scenario.test_run import HOLDS, VIOLATED
from tests.cluster.simulation.test_determinism import RESTLESS


@pytest.fixture
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("RMQLAB_HOME", os.fspath(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def small(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(HOLDS)
    return os.fspath(path)


def run(*arguments: str) -> tuple[int, str, str]:
    """Return exit status, stdout and stderr."""
    result = CliRunner().invoke(app, ["run", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_it_prints_virtual_time_and_the_command_that_replays_it(small: str, home: pathlib.Path) -> None:
    status, out, err = run(small, "--simulated", "--seed", "7")
    assert (status, err) == (0, "")
    assert "simulated, in virtual time" in out
    assert "s of virtual time" in out
    assert "--seed 7 --simulated" in " ".join(out.split())
    assert (home / "runs" / "small" / "latest" / "verdict.json").exists()


@pytest.mark.usefixtures("home")
def test_its_document_says_that_it_was_simulated(small: str) -> None:
    status, out, _ = run(small, "--simulated", "--json")
    document = json.loads(out)
    assert (status, document["verdict"], document["simulated"], document["rate"]) == (0, "holds", True, 1.0)


@pytest.mark.usefixtures("home")
def test_a_violated_claim_is_violated_simulated_too(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "violated.toml"
    path.write_text(VIOLATED)
    assert run(os.fspath(path), "--simulated")[0] == 1


@pytest.mark.usefixtures("home")
def test_both_profiles_are_simulated_with_one_seed(small: str) -> None:
    status, out, _ = run(small, "--simulated", "--profile", "both", "--seed", "3")
    assert status == 0
    assert out.count("s of virtual time") == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--rate", "2"], "without --rate and --attach"),
        (["--attach"], "without --rate and --attach"),
        (["--mode", "raft"], "no mode 'raft'; modes: master-slave, dledger"),
        (["--profile", "5.0"], "no profile '5.0'"),
    ],
)
@pytest.mark.usefixtures("home")
def test_options_that_make_no_sense_are_rejected(small: str, options: list[str], reason: str) -> None:
    status, _, err = run(small, "--simulated", *options)
    assert status == 2
    assert reason in err


@pytest.mark.parametrize("options", [["--simulated"], []])
def test_a_directory_that_cannot_be_written_is_an_error(
    small: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RMQLAB_HOME", os.fspath(tmp_path / "file"))
    status, _, err = run(small, *options)
    assert status == 2
    assert err == f"rmqlab: {tmp_path}/file/runs/small cannot be created: Not a directory (see RMQLAB_HOME)\n"


@pytest.mark.usefixtures("home")
def test_settings_that_a_broker_rejects_are_an_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(HOLDS.replace("rate = 10\n", "rate = 10\nbroker_settings = { flush_interval_commit_logg = 1 }\n"))
    status, _, err = run(os.fspath(path), "--simulated")
    assert status == 2
    assert "did you mean" in err


@pytest.mark.usefixtures("home")
def test_a_simulation_that_is_killed_is_an_error(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def play(*_: object, **__: object) -> None:
        raise ChildEndedError("the simulation ended with signal 9 and without a result")

    monkeypatch.setattr(scenario, "play_simulated", play)
    status, _, err = run(small, "--simulated")
    assert (status, err) == (2, "rmqlab: the simulation ended with signal 9 and without a result\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_one_line(home: pathlib.Path, number: signal.Signals) -> None:
    """Ctrl-C goes to the simulation's process, too, which must not print a traceback."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "rmqlab.cluster", "run", os.fspath(RESTLESS), "--simulated"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 -- one thread
    )
    assert process.stdout is not None
    while "produce orders" not in process.stdout.readline():
        assert process.poll() is None
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    (line,) = err.splitlines()
    assert line.startswith(f"rmqlab: interrupted; all nodes are stopped. Recorded so far: {home}/runs/restless/")


@pytest.mark.usefixtures("home")
def test_all_scenarios_can_be_simulated(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option is passed on to each run."""
    options: list[tuple[str, ...]] = []

    async def run_subprocess(_path: pathlib.Path, _profile: str, more: list[str]) -> dict[str, object]:
        options.append(tuple(more))
        return {"verdict": "holds", "seconds": 1.0, "rate": 1, "expectations": [], "missing": []}

    monkeypatch.setattr(playall, "run_subprocess", run_subprocess)
    (tmp_path / "small.toml").write_text(HOLDS)
    result = CliRunner().invoke(app, ["scenarios", "--run", "--simulated", "--dir", os.fspath(tmp_path)])
    assert result.exit_code == 0
    assert options == [("--simulated",)]
