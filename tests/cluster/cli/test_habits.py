"""Habits of a command line: help, completion, lists, marks, quiet workloads."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from rmqlab.cluster import program
from rmqlab.cluster.__main__ import app
from rmqlab.cluster.cli.commands import PURPOSES, LazyCommand
from rmqlab.cluster.cli.failures import has_only
from rmqlab.cluster.cli.output import screen

assert screen.console, "imported here: its console keeps the COLUMNS of the moment"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("home")


def run(home: pathlib.Path, *arguments: str, **env: str) -> Result:
    return CliRunner(env={"RMQLAB_HOME": str(home), **env}).invoke(app, arguments, prog_name="rmqlab")


@pytest.fixture(scope="module")
def up(home: pathlib.Path) -> Iterator[pathlib.Path]:
    assert run(home, "up", "--slaves", "0", "--detach").exit_code == 0
    yield home
    run(home, "down")


def test_help_is_grouped_and_not_cut(home: pathlib.Path) -> None:
    shown = run(home, "-h", COLUMNS="60", TERMINAL_WIDTH="60")
    assert shown.exit_code == 0
    assert "..." not in shown.stdout.partition("\n")[2], "a cut summary"
    assert [line for line in shown.stdout.splitlines() if line.endswith(":") and line[0] != " "] == [
        *("Options:", *(f"{title}:" for title in PURPOSES)),
    ]
    assert "..." not in run(home, "fault", "-h", COLUMNS="60").stdout.partition("Commands:")[2], "a cut summary"
    assert "Nothing is flushed" in run(home, "kill", "-h").stdout.replace("nothing", "Nothing")


def completed(home: pathlib.Path, words: str) -> list[str]:
    number = str(len(words.split()) - 1)
    environment = {
        "COMP_WORDS": words,
        "COMP_CWORD": number,
        "_RMQLAB_COMPLETE": "bash_complete",
        "RMQLAB_HOME": str(home),
    }
    program = "from rmqlab.cluster.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.split()]


def test_the_shell_completes_targets_and_clusters(up: pathlib.Path) -> None:
    assert completed(up, "rmqlab kill broker-a") == ["broker-a", "broker-a:master", "broker-a:slave", "broker-a:*"]
    assert completed(up, "rmqlab status --name d") == ["default"]
    assert completed(up, "rmqlab kill --name other b") == []
    assert completed(up, "rmqlab check d") == ["default"]


@pytest.mark.parametrize("command", ["check", "audit", "report"])
def test_the_shell_completes_clusters_and_scenarios_that_have_runs(tmp_path: pathlib.Path, command: str) -> None:
    for run in ("shop", "runs/shipping/20261121T214413Z"):
        (tmp_path / run / "journal").mkdir(parents=True)
    assert completed(tmp_path, f"rmqlab {command} sh") == ["shop", "shipping"]
    assert completed(tmp_path, f"rmqlab {command} ship") == ["shipping"]


@pytest.mark.parametrize("command", ["run", "compare", "hunt"])
def test_the_shell_completes_scenarios_and_paths_of_others(tmp_path: pathlib.Path, command: str) -> None:
    assert completed(tmp_path, f"rmqlab {command} kill-") == ["kill-master"]
    assert completed(tmp_path, f"rmqlab {command} hundred") == ["hundred-brokers"]
    assert completed(tmp_path, f"rmqlab {command} ./mine") == ["./mine"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_the_completion_is_printed(home: pathlib.Path, shell: str) -> None:
    shown = run(home, "--show-completion", shell)
    assert (shown.exit_code, f"_RMQLAB_COMPLETE={shell}_complete" in shown.stdout) == (0, True)
    assert run(home, "--show-completion", "tcsh").exit_code == 2


def test_the_package_is_the_command(home: pathlib.Path) -> None:
    words = [sys.executable, "-m", "rmqlab", "statu"]
    done = subprocess.run(
        words, env={**os.environ, "RMQLAB_HOME": str(home)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: rmqlab " in done.stderr
    assert "Did you mean 'status'?" in done.stderr


def test_an_option_that_begins_a_longer_one_suggests_it(home: pathlib.Path) -> None:
    shown = run(home, "produce", "--rate", "5")
    assert (shown.exit_code, "Did you mean '--rate-per-second'?" in shown.stderr) == (2, True)
    shown = run(home, "topics", "create", "orders", "--read", "5")
    assert (shown.exit_code, "Did you mean '--read-queues'?" in shown.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("fault link a b --latency 200", "Did you mean '--kind latency'?"),
        ("fault latency a b", "Did you mean 'rmqlab fault link --kind latency'?"),
        ("fault isolate broker-a", "Did you mean 'rmqlab isolate'?"),
        ("fault lnk a b", "Did you mean 'link'?"),
        ("produce orders", "(orders). The topic is an option: --topic TOPIC"),
        ("consume orders -c 1", "(orders). The topic is an option: --topic TOPIC"),
        ("statsu", "No such command 'statsu'. Did you mean 'status'?"),
        ("produce --topc orders", "Did you mean '--topic'?"),
        ("fault link a b --xx-bytes 7", "Did you mean one of: '--after-bytes', '--every-bytes', '--read-bytes'?"),
        ("produce --topic", "Option '--topic' requires an argument."),
        ("-n shop status", "'-n' here. It belongs behind the name of the subcommand."),
        ("topics --name shop list", "'--name' here. It belongs behind the name of the subcommand."),
        ("topics --nme shop list", "No such option '--nme'."),
    ],
)
def test_a_word_in_the_wrong_place_is_recognised(home: pathlib.Path, words: str, hint: str) -> None:
    shown = run(home, *words.split())
    assert (shown.exit_code, hint in shown.stderr) == (2, True), shown.stderr


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "ten", "", "1e999"])
@pytest.mark.parametrize(
    "words", ["wait ready --timeout", "produce -r", "up --rate", "fault random --every", "demo --rate"]
)
def test_a_number_is_finite(home: pathlib.Path, words: str, value: str) -> None:
    shown = run(home, *words.split(), value)
    assert (shown.exit_code, "Invalid value for '--" in shown.stderr) == (2, True)


def test_a_mark_is_in_the_logs_of_all_and_an_event(up: pathlib.Path) -> None:
    marked = run(up, "mark", "before", "the\x1b[31m cut", "--json")
    assert json.loads(marked.stdout) == ["namesrv-1", "broker-a"]
    event = json.loads(run(up, "events", "-l", "1", "--json").stdout)
    assert (event["kind"], event["text"]) == ("marked", "before the\\x1b[31m cut")
    assert run(up, "wait", "ready").exit_code == 0  # after an exchange with each node, it has read the mark
    for node in ("supervisor", "namesrv-1", "broker-a"):
        assert "mark: before the" in run(up, "logs", node, "-l", "500").stdout
    for wrong in ("", "x" * 201):
        refused = run(up, "mark", wrong)
        assert (refused.exit_code, "expected 1 to 200" in refused.stderr) == (2, True)


def test_workloads_without_a_terminal_print_what_went_wrong_and_counts(up: pathlib.Path) -> None:
    lines = run(up, "produce", "-c", "3", "-r", "0").stdout.splitlines()
    assert lines[-1] == "sent 3  SEND_OK 3"
    assert not any(" sent #" in line or " node_" in line for line in lines)
    every = run(up, "produce", "-c", "3", "-r", "0", "--all").stdout
    assert every.count(" sent #") == 3


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let children notice SIGINT, which a shell makes its background processes ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_workload_with_its_counts(up: pathlib.Path, number: signal.Signals) -> None:
    environment = {**os.environ, "RMQLAB_HOME": str(up)}
    words = [sys.executable, "-m", "rmqlab.cluster", "produce", "--all", "-r", "20"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "SEND_OK" not in (line := process.stdout.readline()):
            assert line, "it ended too early"
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(60) == 0
    last = rest.splitlines()[-1]
    assert last.startswith("sent ")
    (produced,) = (line for line in rest.splitlines() if " produced " in line)
    assert f"sent={last.split()[1]} " in produced, "the counts are those of the journal"


@pytest.mark.parametrize(("words", "status"), [("", "1"), ("up", "1"), ("check demo", "2"), ("demo", "2")])
def test_ctrl_c_during_the_imports_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, status: str
) -> None:
    class Interrupted(types.ModuleType):
        def __getattr__(self, _name: str) -> object:
            raise KeyboardInterrupt

    first = "rmqlab.cluster.supervisor.detachedprocess"
    monkeypatch.setitem(sys.modules, first, Interrupted(first))
    monkeypatch.setattr(sys, "argv", ["rmqlab", *words.split()])
    with pytest.raises(SystemExit, match=status):
        program.main()
    assert capsys.readouterr().err == "\nAborted!\n"


def test_clusters_are_listed_and_a_stopped_one_says_so(home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "start one with: rmqlab up" in run(tmp_path, "ls").stdout
    assert run(tmp_path, "status").exit_code == 1, "an unknown cluster"
    assert run(home, "up", "--slaves", "0", "--detach", "--name", "shop").exit_code == 0
    found = {cluster["name"]: cluster for cluster in json.loads(run(home, "ls", "--json").stdout)}
    assert found["shop"]["state"] == "running"
    assert found["shop"]["supervisor_pid"] > 0
    assert run(home, "down", "--name", "shop").exit_code == 0
    listed = run(home, "ls").stdout.splitlines()
    assert any(line.split()[:3] == ["shop", "stopped", "2"] for line in listed), listed
    narrow = run(home, "ls", COLUMNS="40").stdout
    assert "…" not in narrow, "a cut address"
    shown = run(home, "status", "--name", "shop")
    assert (shown.exit_code, shown.stderr) == (3, "")
    assert "rmqlab up --name shop --detach" in shown.stdout
    document: dict[str, Any] = json.loads(run(home, "status", "--name", "shop", "--json").stdout)
    assert (document["state"], document["supervisor_pid"]) == ("stopped", None)
    (broker,) = (node for node in document["nodes"] if node["kind"] == "broker")
    assert broker["size"] > 0


def test_a_cluster_with_a_damaged_record_is_listed(home: pathlib.Path) -> None:
    (home / "broken").mkdir()
    (home / "broken" / "cluster.json").write_text("{")
    done = run(home, "ls")
    assert done.exit_code == 0
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("broken "))
    assert line.split()[1:4] == ["damaged", "?", "?"]
    assert f"rmqlab: {home}/broken/cluster.json is damaged: " in done.stderr
    (document,) = (one for one in json.loads(run(home, "ls", "--json").stdout) if one["name"] == "broken")
    assert (document["state"], document["namesrv_addr"], document["nodes"]) == ("damaged", "", [])


@pytest.mark.parametrize("columns", [60, 44])
def test_a_narrow_terminal_keeps_the_states(up: pathlib.Path, columns: int) -> None:
    environment = {**os.environ, "RMQLAB_HOME": str(up), "COLUMNS": str(columns)}
    words = [sys.executable, "-m", "rmqlab.cluster", "status"]
    lines = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("broker-a ") and " id " not in line and "log" not in line)
    assert line.split()[:3] == ["broker-a", "ASYNC_MASTER", "ready"]
    assert len(line.rstrip()) <= columns


def test_no_color_is_obeyed(up: pathlib.Path) -> None:
    environment = {**os.environ, "RMQLAB_HOME": str(up), "FORCE_COLOR": "1", "NO_COLOR": "1"}
    words = [sys.executable, "-m", "rmqlab.cluster", "status"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert "\x1b[3" not in done.stdout


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    "words", ["status --watch --json", "status --watch", "events --follow", "logs broker-a --follow"]
)
def test_ctrl_c_is_the_way_to_end_what_follows(up: pathlib.Path, words: str) -> None:
    environment = {**os.environ, "RMQLAB_HOME": str(up)}
    command = [sys.executable, "-m", "rmqlab.cluster", *words.split()]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert (process.stderr.read(), process.wait(60)) == ("", 0)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("scenarios", 2),
        ("hunt --list --json", 2),
        ("run kill-master --simulated", 2),
        ("events --schema", 1),
        ("up -n piped --slaves 0", 1),
    ],
)
def test_a_reader_that_ends_early_is_not_taken_for_a_verdict(home: pathlib.Path, words: str, status: int) -> None:
    command = [sys.executable, "-m", "rmqlab.cluster", *words.split()]
    environment = {**os.environ, "RMQLAB_HOME": str(home)}
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(command, env=environment, stdout=pipe, stderr=subprocess.PIPE, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (status, b"")


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [("compare", 2, "interrupted: no result"), ("demo", 2, "interrupted: no result"), ("up", 1, "Aborted!")],
)
def test_ctrl_c_in_a_task_prints_no_traceback(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, command: str, status: int, text: str
) -> None:
    @click.command()
    def interrupted() -> None:
        raise BaseExceptionGroup("of a nursery", [KeyboardInterrupt()])

    monkeypatch.setattr(LazyCommand, "load", lambda _: interrupted)
    done = run(home, command)
    assert (done.exit_code, done.stdout) == (status, "")
    assert done.stderr.strip().removeprefix("rmqlab: ") == text


def test_a_group_counts_as_what_all_of_its_exceptions_are() -> None:
    interrupts = BaseExceptionGroup("", [KeyboardInterrupt(), BaseExceptionGroup("", [KeyboardInterrupt()])])
    assert has_only(interrupts, KeyboardInterrupt)
    assert not has_only(BaseExceptionGroup("", [KeyboardInterrupt(), ValueError()]), KeyboardInterrupt)


@pytest.mark.parametrize("program", ["rmqlab.cluster", "rmqlab.cluster.program"])
@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1, 2)], ids=str)
def test_a_cluster_starts_with_closed_streams(tmp_path: pathlib.Path, program: str, closed: tuple[int, ...]) -> None:
    code = f"import sys; from {program} import main; sys.argv[1:] = 'up --slaves 0 --detach'.split(); main()"
    command = ["sh", "-c", f'exec "$0" "$@" {" ".join(f"{one}>&-" for one in closed)}', sys.executable, "-c", code]
    done = subprocess.run(
        command if program.endswith("program") else [*command[:4], "-m", program, "up", "--slaves", "0", "--detach"],
        env={**os.environ, "RMQLAB_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (run(tmp_path, "down").exit_code, done.returncode, done.stderr) == (0, 0, "")
