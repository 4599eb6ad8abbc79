"""Worker threads of a process: where calls run that block on the disk.

A simulation has no threads. There such a call runs at once, and the time for which it would have blocked passes
afterwards, on the simulated clock. A process that is killed during that time has the effects of the call already, so
calls that follow one another must be given one by one: `each_in_thread`.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar, TypeVarTuple

import attrs
import trio

R = TypeVar("R")
Args = TypeVarTuple("Args")


@attrs.define(eq=False)
class InlineCalls:
    """Runs the calls of one simulated node, and owes it their time."""

    owed: float = 0.0
    """Seconds for which the current call would have blocked."""

    async def run(self, fn: Callable[[*Args], R], *args: *Args) -> R:
        """Return the call's result, after its time."""
        await trio.lowlevel.checkpoint()
        self.owed = 0.0  # not earlier: other calls may run during the checkpoint
        result = fn(*args)
        if owed := self.owed:
            await trio.sleep(owed)
        return result


@attrs.define(eq=False)
class ThreadCalls:
    """Runs the calls of one trio run in threads.

    Counts those that have not returned.
    """

    unfinished: int = 0

    @property
    def are_running(self) -> bool:
        """True while a call runs in a worker thread."""
        return self.unfinished > 0

    async def run(self, fn: Callable[[*Args], R], *args: *Args) -> R:
        """Return the call's result."""
        self.unfinished += 1
        try:
            return await trio.to_thread.run_sync(fn, *args)
        finally:
            self.unfinished -= 1


_THREADS: trio.lowlevel.RunVar[ThreadCalls] = trio.lowlevel.RunVar("calls in threads")
_INLINE: trio.lowlevel.RunVar[InlineCalls | None] = trio.lowlevel.RunVar("calls of this process", default=None)


def run_inline(calls: InlineCalls) -> None:
    """Run the calls of this trio run at once, instead of in threads."""
    _INLINE.set(calls)


def are_inline() -> bool:
    """True if the calls of this trio run are made at once, because it is simulated."""
    return _INLINE.get() is not None


def thread_calls() -> ThreadCalls:
    """Return the calls of this trio run.

    Another thread of the process may have a run of its own.
    """
    try:
        return _THREADS.get()
    except LookupError:
        calls = ThreadCalls()
        _THREADS.set(calls)
        return calls


async def in_thread(fn: Callable[[*Args], R], *args: *Args) -> R:
    """Return the result of a call that may block, made in a worker thread."""
    inline = _INLINE.get()
    return await (thread_calls().run(fn, *args) if inline is None else inline.run(fn, *args))


async def each_in_thread(fns: Sequence[Callable[[], object]]) -> None:
    """Make calls that may block, one after the other, in a worker thread.

    The first that raises ends them.
    """
    inline = _INLINE.get()
    if inline is None:
        await thread_calls().run(_call_each, fns)
        return
    for fn in fns:
        await inline.run(fn)


async def calls_in_thread(calls: Generator[Callable[[], object], None, R]) -> R:
    """Make the calls that a generator yields in a worker thread; return its result.

    An OSError of a call is thrown into the generator, which runs in the calling task. Any other error closes it.
    """
    with contextlib.closing(calls):  # not when its traceback is freed
        try:
            call = next(calls)
            while True:
                try:
                    await in_thread(call)
                except OSError as exc:
                    call = calls.throw(exc)
                else:
                    call = next(calls)
        except StopIteration as end:
            result: R = end.value
            return result


def _call_each(fns: Sequence[Callable[[], object]]) -> None:
    for fn in fns:
        fn()


def block(seconds: float, until: threading.Event) -> None:
    """Block the calling worker thread for real seconds, or until the event."""
    inline = _INLINE.get() if trio.lowlevel.in_trio_run() else None
    if inline is None:
        until.wait(min(seconds, threading.TIMEOUT_MAX))
    else:
        inline.owed += seconds
