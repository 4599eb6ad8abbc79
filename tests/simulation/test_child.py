"""Functions in forked processes: results, and every end without one."""

import os
import signal
import subprocess
import sys
import time

import pytest

from rmqlab.simulation.child import Child, ChildEndedError, ChildOvertimeError, in_order, run_in_child, run_in_children


class OddError(Exception):
    """Cannot be restored: its arguments are not those of its constructor."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def fail(exc: BaseException) -> None:
    raise exc


def test_the_result_is_returned() -> None:
    own = os.getpid()
    assert run_in_child(lambda: ["a result", os.getppid()]) == ["a result", own]


def test_results_are_put_in_order_as_soon_as_possible() -> None:
    results = in_order(iter([(1, "b"), (0, "a"), (2, "c")]))

    assert list(results) == ["a", "b", "c"]


def test_a_large_result_is_returned() -> None:
    assert len(run_in_child(lambda: bytes(5_000_000))) == 5_000_000


def test_an_exception_is_raised() -> None:
    with pytest.raises(ValueError, match="wrong"):
        run_in_child(lambda: fail(ValueError("wrong")))


def test_an_exception_that_cannot_be_pickled_is_raised_as_text() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*OddError: this and that"):
        run_in_child(lambda: fail(OddError("this", "that")))


def test_a_result_that_cannot_be_pickled_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"a result that cannot be pickled: <function"):
        run_in_child(lambda: lambda: None)


def test_a_process_that_is_killed_has_no_result() -> None:
    with pytest.raises(ChildEndedError, match=r"with signal 9 and without a result"):
        run_in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_a_process_that_exits_has_no_result() -> None:
    with pytest.raises(ChildEndedError, match=r"with exit status 7 and without a result"):
        run_in_child(lambda: os._exit(7))


def compute_forever() -> str:
    while True:
        pass


def test_a_process_that_computes_too_long_is_ended() -> None:
    plays = [compute_forever, lambda: "done"]
    assert dict(run_in_children(plays, 2, cpu_seconds=1, overtime=lambda: "late")) == {0: "late", 1: "done"}
    with pytest.raises(ChildOvertimeError):
        Child.start(compute_forever, 1).result()


def test_the_process_does_not_clean_up() -> None:
    """Nodes that were killed leave tasks whose `finally` blocks must not run."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    class Noisy:
        def __del__(self) -> None:
            os.write(writer, b"cleaned up")

    def play() -> int:
        noisy = Noisy()
        noisy.itself = noisy  # type: ignore[attr-defined]
        return 1

    assert run_in_child(play) == 1
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)


def test_results_are_returned_when_ready_with_limited_concurrency() -> None:
    results = dict(run_in_children([lambda number=number: number**2 for number in range(7)], 3))  # type: ignore[misc]
    assert results == {number: number**2 for number in range(7)}


def test_a_caller_that_stops_early_kills_the_others() -> None:
    results = run_in_children([lambda: 1, lambda: time.sleep(600)], 2)
    assert next(results) == (0, 1)
    results.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_child_can_be_killed() -> None:
    child = Child.start(lambda: time.sleep(600))
    child.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


INTERRUPTED = """
import os, signal, sys, time
from rmqlab.simulation.child import run_in_child

def play():
    print("begun", os.getpid(), flush=True)
    time.sleep(600)

try:
    run_in_child(play)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_kills_the_child_and_is_raised_in_the_parent() -> None:
    """A terminal sends it to both."""
    parent = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 -- one thread
    )
    assert parent.stdout is not None
    begun, pid = parent.stdout.readline().split()
    assert begun == "begun"
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.communicate(timeout=60) == ("interrupted\n", "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
