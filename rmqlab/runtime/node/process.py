"""Runs a server as a process: clock, signals, supervisor, exit status."""

import contextlib
import errno
import gc
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import trio

from rmqlab.runtime.clock import RatedClock, real_seconds
from rmqlab.runtime.exceptiongroups import leaves
from rmqlab.runtime.journals.journalentry import CLOSED, JournalEntry
from rmqlab.runtime.journals.journalwriter import JournalWriter
from rmqlab.runtime.net.node_faults import NodeFaults, set_process_faults
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.text.printable import printable_lines

Config = TypeVar("Config")

MANY_FILES = 65_536
GC_THRESHOLDS = (20_000, 20, 50)
"""Requests create many objects but no cycles: rarer garbage collection saves 5 % of the time."""
FINAL_EVENTS_SECONDS = 0.5  # real time, for events of the shutdown to reach the supervisor


class StartError(Exception):
    """The process cannot start, for a reason that the operator can fix.

    Printed without traceback.
    """


def run_process(
    main: Callable[[Config, ControlLink], Awaitable[None]],
    config: Config,
    *,
    control: str | os.PathLike[str] | None,
    clock: RatedClock,
    name: str = "standalone",
    journal: JournalWriter | None = None,
    faults: NodeFaults | None = None,
) -> None:
    """Run `main` until it returns, a signal arrives, or the supervisor ends.

    SIGTERM, SIGINT and the end of the control channel cancel `main`, whose cleanup implements the graceful stop; a
    second signal ends the process at once. Known reasons not to start are printed to stderr, one line each, with exit
    status 1. The journal is closed at the end. `faults` are in effect from the beginning.
    """
    allow_many_files()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        trio.run(_run, main, config, control, name, journal, faults or NodeFaults(), clock=clock)
    except (StartError, BaseExceptionGroup) as raised:
        group = raised if isinstance(raised, BaseExceptionGroup) else ExceptionGroup(name, [raised])
        known, unknown = group.split(_is_known)
        if unknown is not None:
            raise
        for exc in leaves(known) if known else ():
            print(printable_lines(f"{name}: {exc}"), file=sys.stderr)
        sys.exit(1)
    else:
        if journal is not None:
            journal.close(JournalEntry(clock.cluster_millis(), name, CLOSED, {}))
    finally:
        if journal is not None:
            journal.close()


def allow_many_files() -> None:
    """Raise the soft limit of open files to MANY_FILES.

    A broker keeps mapped files open, and a topic can have 1024 queues.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(MANY_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # continue with the old limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _run(
    main: Callable[[Config, ControlLink], Awaitable[None]],
    config: Config,
    control: str | os.PathLike[str] | None,
    name: str,
    journal: JournalWriter | None,
    faults: NodeFaults,
) -> None:
    link = ControlLink(name, journal=journal, faults=faults)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        stream = None if control is None else await _connect(control)
        await serve(main, config, link, stream, signals)


async def serve(
    main: Callable[[Config, ControlLink], Awaitable[None]],
    config: Config,
    link: ControlLink,
    stream: trio.abc.Stream | None,
    signals: AsyncIterator[int],
    exit_now: Callable[[int], object] = os._exit,
) -> None:
    """Run `main` until it returns, a signal arrives, or the supervisor ends.

    Without a stream, there is no supervisor. A second signal calls `exit_now` with the exit status.
    """
    set_process_faults(link.faults)
    serving = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, signals, serving, link, exit_now)
        nursery.start_soon(link.write_journal_forever)
        if stream is None:
            link.limit = 0
        else:
            nursery.start_soon(_attend_until_gone, link, stream, serving)
        with serving:
            await main(config, link)
        if stream is not None:
            with trio.move_on_after(real_seconds(FINAL_EVENTS_SECONDS)):
                await link.wait_written()
        nursery.cancel_scope.cancel()


async def _connect(control: str | os.PathLike[str]) -> trio.SocketStream:
    try:
        return await trio.open_unix_socket(os.fspath(control))
    except OSError as exc:
        raise StartError(f"cannot connect to the supervisor at {os.fspath(control)}: {exc.strerror}") from None


async def _attend_until_gone(link: ControlLink, stream: trio.abc.Stream, serving: trio.CancelScope) -> None:
    async with stream:
        await link.attend(stream)
    serving.cancel()


async def _stop_on_signal(
    signals: AsyncIterator[int], serving: trio.CancelScope, link: ControlLink, exit_now: Callable[[int], object]
) -> None:
    async for number in signals:
        if serving.cancel_called:
            exit_now(128 + number)
        link.stopping()
        serving.cancel()


def _is_known(exc: BaseException) -> bool:
    return isinstance(exc, StartError) or (
        isinstance(exc, OSError) and exc.errno in {errno.EADDRINUSE, errno.EADDRNOTAVAIL}
    )
