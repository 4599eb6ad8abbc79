"""Runs a function in a forked process: a simulation changes its process for good, and its nodes leave much behind."""

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class ChildEndedError(Exception):
    """The process ended without a result, such as by a signal."""


def run_in_child(fn: Callable[[], T]) -> T:
    """Return what `fn` returns in a forked process, or raise what it raises.

    ChildEndedError if the process ends before that. Call it in a process without other threads. What cannot be pickled
    is raised as RuntimeError with the text of the traceback.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _run(fn, writer)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            data = pipe.read()
    finally:
        _, status = os.waitpid(pid, 0)
    if not data:
        raise ChildEndedError(f"the simulation ended with {_describe(status)} and without a result")
    raised, value = pickle.loads(data)  # noqa: S301 -- our own child's
    if raised:
        raise value
    result: T = value
    return result


def _run(fn: Callable[[], Any], writer: int) -> NoReturn:
    status = 1
    try:
        try:
            answer = False, fn()
        except Exception as exc:  # noqa: BLE001 -- passed on to the parent
            answer = True, exc
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(_pickled(answer))
        status = 0
    except BaseException:  # noqa: BLE001 -- the last frame of a process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # no exit handlers, and no cleaning up in nodes that were killed


def _pickled(answer: tuple[bool, Any]) -> bytes:
    try:
        data = pickle.dumps(answer)
        pickle.loads(data)  # noqa: S301 -- exceptions may be pickled and not restored
    except Exception:  # noqa: BLE001 -- whatever __reduce__ raises
        raised, value = answer
        text = "".join(traceback.format_exception(value)) if raised else f"a result that cannot be pickled: {value!r}"
        return pickle.dumps((True, RuntimeError(text)))
    return data


def _describe(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit status {code}"
