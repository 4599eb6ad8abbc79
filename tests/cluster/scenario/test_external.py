"""External commands as steps of scenarios."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from rmqlab.cluster.scenario import external
from rmqlab.cluster.scenario.external import (
    CommandError,
    CommandLine,
    NotAllowedError,
    check_commands,
    read_command,
    run_command,
)
from rmqlab.cluster.scenario.model import Action, Scenario, Step
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec

LONG = 60.0


@attrs.define
class FakeSupervisor:
    """As much of a supervisor as a command needs."""

    directory: Any
    events: list[dict[str, Any]] = attrs.field(factory=list)

    def record(self, _node: str, kind: str, **fields: Any) -> None:
        self.events.append({"kind": kind, **fields})


@attrs.frozen
class Directory:
    path: Path


@attrs.frozen
class FakeCluster:
    supervisor: FakeSupervisor
    namesrv_addr: str = "127.77.1.1:9876"


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    return FakeCluster(FakeSupervisor(Directory(tmp_path)))


def python(program: str) -> CommandLine:
    return CommandLine((sys.executable, "-c", program))


async def test_a_command_gets_the_cluster_addresses_and_its_output_is_kept(cluster: Any, tmp_path: Path) -> None:
    program = "import os, sys; print(os.environ['NAMESRV_ADDR'], os.environ['RMQLAB_RUN_DIR'], sys.stdin.read())"
    await run_command(cluster, python(program), "check it/all", LONG)
    output = tmp_path / "commands" / "01-check-it-all.log"
    assert output.read_text() == f"127.77.1.1:9876 {tmp_path} \n"
    (event,) = cluster.supervisor.events
    assert (event["kind"], event["exit_status"], event["output"]) == ("command_ended", 0, output.name)


async def test_another_status_fails_the_step(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"exit status 7; output: .*01-python"):
        await run_command(cluster, python("import sys; print('why', file=sys.stderr); sys.exit(7)"), "", LONG)
    (output,) = (tmp_path / "commands").iterdir()
    assert output.read_text() == "why\n"


async def test_a_missing_program_is_named(cluster: Any) -> None:
    with pytest.raises(CommandError, match=r"no-such-program x: .*No such file"):
        await run_command(cluster, CommandLine(("no-such-program", "x")), "", LONG)


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(LONG):
        while not holds():  # noqa: ASYNC110 -- nobody would set an event
            await trio.sleep(0.01)


def is_gone(output: Path) -> bool:
    """True if the process whose id was printed has ended."""
    stat = Path(f"/proc/{int(output.read_text().split()[0])}/stat")
    return not stat.exists() or stat.read_text().split()[2] == "Z"


GRANDCHILD = """
import subprocess
child = subprocess.Popen(["sleep", "1000"])
print(child.pid, flush=True)
child.wait()
"""


async def test_a_command_that_times_out_is_killed_with_its_process_group(cluster: Any, tmp_path: Path) -> None:
    output = tmp_path / "commands" / "01-slow.log"
    with pytest.raises(CommandError, match="still ran after 3 s"):
        await run_command(cluster, python(GRANDCHILD), "slow", 3)
    await until(lambda: is_gone(output))
    assert cluster.supervisor.events[0]["exit_status"] < 0


LEAVING = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
print(child.pid, child.stdout.readline(), flush=True)
"""


@pytest.mark.parametrize("ignored", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN);"])
async def test_a_process_that_it_leaves_is_ended(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: str
) -> None:
    monkeypatch.setattr(external, "STOP_SECONDS", 0.5)
    left = f"import signal, time;{ignored} print(1, flush=True); time.sleep(1000)"
    await run_command(cluster, CommandLine((sys.executable, "-c", LEAVING, left)), "leaving", LONG)
    assert is_gone(tmp_path / "commands" / "01-leaving.log")
    assert cluster.supervisor.events[0]["exit_status"] == 0


async def test_a_process_that_left_its_group_is_not_signalled(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the pipe open; the step does not wait for it."""
    monkeypatch.setattr(external, "DRAIN_SECONDS", 0.1)
    program = (
        "import subprocess; child = subprocess.Popen(['sleep', '1000'], start_new_session=True);"
        "print(child.pid, flush=True)"
    )
    await run_command(cluster, python(program), "leaving", LONG)
    pid = int((tmp_path / "commands" / "01-leaving.log").read_text())
    try:
        assert not is_gone(tmp_path / "commands" / "01-leaving.log")
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_the_output_has_a_limit(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "MOST_OUTPUT", 1000)
    await run_command(cluster, python("for _ in range(300): print('x' * 999)"), "loud", LONG)
    output = (tmp_path / "commands" / "01-loud.log").read_bytes()
    assert output == b"x" * 999 + b"\n" + b"\n... 299000 more bytes are not kept\n"


async def test_a_cancelled_run_ends_it(cluster: Any, tmp_path: Path) -> None:
    output = tmp_path / "commands" / "01-slow.log"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_command, cluster, python(GRANDCHILD), "slow", LONG)
        await until(lambda: output.exists() and output.read_text().endswith("\n"))
        nursery.cancel_scope.cancel()
    await until(lambda: is_gone(output))


@pytest.mark.parametrize("value", ["make test", [], [""], ["make", 3], {"command": ["make"]}])
def test_another_form_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="expected an array of a command and its arguments"):
        read_command(value)


def test_it_needs_permission_and_real_time() -> None:
    step = Step(action=Action("run", CommandLine(("make", "test"))))
    scenario = Scenario(name="x", claim="x", cluster=ClusterSpec(name="x"), steps=(step,))
    check_commands(scenario, is_allowed=True, is_simulated=False)
    check_commands(attrs.evolve(scenario, steps=()), is_allowed=False, is_simulated=True)
    with pytest.raises(NotAllowedError, match="make test: commands run only with --allow-commands"):
        check_commands(scenario, is_allowed=False, is_simulated=False)
    with pytest.raises(NotAllowedError, match="cannot reach a simulated cluster"):
        check_commands(scenario, is_allowed=True, is_simulated=True)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["make", "test"], "make test"),
        (["sh", "-c", "echo $X"], "sh -c 'echo $X'"),
        (["echo", "\x1b[2Jx\nrmqlab: all is well"], "echo '\\x1b[2Jx\\nrmqlab: all is well'"),
        (["echo", "x" * 200_000], f"echo {'x' * 495}...(200005 characters)"),
    ],
)
def test_a_command_is_shown_as_one_line_of_limited_length(words: list[str], shown: str) -> None:
    assert str(read_command(words)) == shown


async def test_a_word_with_a_zero_byte_starts_nothing(cluster: Any) -> None:
    with pytest.raises(CommandError, match=r"echo 'a\\x00b': embedded null byte"):
        await run_command(cluster, CommandLine(("echo", "a\0b")), "", LONG)
