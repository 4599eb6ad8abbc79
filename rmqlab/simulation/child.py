"""Runs a function in a forked process.

A simulation changes its process permanently, and does not clean up after its nodes.
"""

import contextlib
import itertools
import os
import pickle
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import IO, Any, Generic, NoReturn, TypeVar

import attrs

T = TypeVar("T")


class ChildEndedError(Exception):
    """The process ended without a result, such as by a signal."""


class ChildOvertimeError(ChildEndedError):
    """The process was ended because it used too much processor time."""


@attrs.frozen(eq=False)
class Child(Generic[T]):
    """A forked process that runs a function. Its result must be read."""

    pid: int
    pipe: IO[bytes]

    @classmethod
    def start(cls, fn: Callable[[], T], cpu_seconds: int | None = None) -> "Child[T]":
        """Fork. Call it in a process without other threads.

        The process is ended when it has used `cpu_seconds` of processor time.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _limit(cpu_seconds)
            _run(fn, writer)
        os.close(writer)
        return cls(pid, os.fdopen(reader, "rb"))

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the result is there."""
        return self.pipe.fileno()

    def result(self) -> T:
        """Wait for the end. Return the function's result, or raise its exception.

        ChildEndedError if the process ended before that.
        """
        try:
            data = self.pipe.read()
        except BaseException:  # such as Ctrl-C
            self.kill()
            raise
        self.pipe.close()
        _, status = os.waitpid(self.pid, 0)
        if not data and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            raise ChildOvertimeError("the simulation used more processor time than it may")
        if not data:
            raise ChildEndedError(f"the simulation ended with {_describe(status)} and without a result")
        raised, value = pickle.loads(data)  # noqa: S301 -- our own child's
        if raised:
            raise value
        result: T = value
        return result

    def kill(self) -> None:
        """End the process at once, without a result."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.pipe.close()
        os.waitpid(self.pid, 0)


def run_in_child(fn: Callable[[], T]) -> T:
    """Return the result of `fn` in a forked process, or raise its exception.

    An exception that cannot be pickled becomes a RuntimeError with the traceback's text. Errors as Child.
    """
    return Child.start(fn).result()


def run_in_children(
    fns: Iterable[Callable[[], T]],
    jobs: int,
    *,
    cpu_seconds: int | None = None,
    overtime: Callable[[], T] | None = None,
) -> Generator[tuple[int, T], None, None]:
    """Run functions in forked processes, `jobs` at a time.

    Yield index and result of each as it ends.

    The iterable is advanced as processes become free. If the caller stops early, the others are killed.
    `overtime` returns the result of a process that used `cpu_seconds`; without it, that is a ChildOvertimeError.
    """
    waiting = enumerate(fns)
    running: dict[Child[T], int] = {}
    try:
        while True:
            for number, fn in itertools.islice(waiting, jobs - len(running)):
                running[Child.start(fn, cpu_seconds)] = number
            if not running:
                return
            for child in select.select([*running], [], [])[0]:
                number = running.pop(child)
                try:
                    result = child.result()
                except ChildOvertimeError:
                    if overtime is None:
                        raise
                    result = overtime()
                yield number, result
    finally:
        for child in running:
            child.kill()


def in_order(results: Iterator[tuple[int, T]]) -> Iterator[T]:
    """Yield results of `run_in_children` in the order of their functions.

    Each is yielded as soon as possible.
    """
    ended: dict[int, T] = {}
    following = 0
    for number, result in results:
        ended[number] = result
        while following in ended:
            yield ended.pop(following)
            following += 1


def _limit(cpu_seconds: int | None) -> None:
    if cpu_seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))


def _run(fn: Callable[[], Any], writer: int) -> NoReturn:
    status = 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which kills this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        try:
            outcome = False, fn()
        except Exception as exc:  # noqa: BLE001 -- passed on to the parent
            outcome = True, exc
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(_pickled(outcome))
        status = 0
    except BaseException:  # noqa: BLE001 -- the last frame of a process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # no exit handlers, and no cleaning up in nodes that were killed


def _pickled(outcome: tuple[bool, Any]) -> bytes:
    try:
        data = pickle.dumps(outcome)
        pickle.loads(data)  # noqa: S301 -- exceptions may be pickled and not restored
    except Exception:  # noqa: BLE001 -- whatever __reduce__ raises
        raised, value = outcome
        text = "".join(traceback.format_exception(value)) if raised else f"a result that cannot be pickled: {value!r}"
        return pickle.dumps((True, RuntimeError(text)))
    return data


def _describe(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit status {code}"
