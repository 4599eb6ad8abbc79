"""The start of each process of a cluster, forked or executed, up to `main`.

Platforms where forking is unsafe start processes by running this module:
`python -m rmqlab.cluster.supervisor.fork.child REQUEST PARENT`, with the `SpawnRequest` as JSON.
"""

import contextlib
import functools
import importlib
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import attrs
import trio

from rmqlab.faults.process import faults_of_process
from rmqlab.runtime.clock import ClockSettings, RatedClock
from rmqlab.runtime.config.settings import SettingsError
from rmqlab.runtime.journals.journalentry import opened
from rmqlab.runtime.journals.journalwriter import JournalWriter
from rmqlab.runtime.net.node_faults import PlainRules
from rmqlab.runtime.node.logfile import end_logging, log_to_file, redirect_output
from rmqlab.runtime.node.process import StartError, run_process
from rmqlab.runtime.text.printable import printable_lines

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


@attrs.frozen(kw_only=True)
class SpawnRequest:
    """The parameters of a new process."""

    id: int
    name: str
    module: str
    """A module with `load_config(path)` and `async main(config, link)`."""
    config: str
    log: str
    """The file to which stdout and stderr are appended."""
    journal: str
    """The file to which its events are appended."""
    control: str
    """The socket on which the supervisor listens."""
    clock: ClockSettings
    rules: PlainRules = attrs.field(factory=dict)
    """The fault rules in effect at its start."""
    seed: str = ""
    """Random seed; empty means unseeded."""
    run: str = ""
    """Id of the run, for the journal."""


def run_child(request: SpawnRequest, parent: int) -> NoReturn:
    """Run the process until it ends.

    `parent`: the id of the process with which it ends at the latest.
    """
    status = 1
    try:
        _redirect_output(request.log)
        _die_with_parent(parent, request.name)
        _reseed(request)
        log_to_file(Path(request.log), takes_output=True)
        _run(request)
        status = 0
    except SystemExit as exc:
        status = exc.code if isinstance(exc.code, int) else 1
    except BaseException:  # noqa: BLE001 -- the last frame of a process: logged, and shown by its exit status
        print(printable_lines(traceback.format_exc()), file=sys.stderr)
    finally:
        with contextlib.suppress(OSError, ValueError):
            end_logging()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # not sys.exit: a forked process must not run the exit handlers of its parent


def _run(request: SpawnRequest) -> None:
    module = importlib.import_module(request.module)
    try:
        config = module.load_config(request.config)
    except (SettingsError, StartError) as exc:
        print(printable_lines(f"{request.name}: {exc}"), file=sys.stderr)
        sys.exit(1)
    clock = RatedClock(request.clock)
    faults = faults_of_process(clock, request.rules)
    try:
        journal = JournalWriter(Path(request.journal))
    except OSError as exc:  # such as a directory that was removed
        print(printable_lines(f"{request.name}: {request.journal}: {exc.strerror}"), file=sys.stderr)
        sys.exit(1)
    journal.begin(opened(clock.cluster_millis(), request.name, request.run))
    run_process(
        module.main,
        config,
        control=request.control,
        clock=clock,
        name=request.name,
        journal=journal,
        faults=faults,
    )


def _redirect_output(path: str) -> None:
    redirect_output(Path(path))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]  # they are text files by now


def _die_with_parent(parent: int, name: str) -> None:
    """Ask Linux to kill this process with its parent.

    A paused process cannot detect the end of its channel.
    """
    if sys.platform != "linux":
        return
    prctl = prctl_function()
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before prctl
        os._exit(1)


@functools.cache
def prctl_function() -> Callable[..., int]:
    """Return the C function `prctl`."""
    import ctypes  # noqa: PLC0415 -- of use on Linux only

    function: Callable[..., int] = ctypes.CDLL(None).prctl
    return function


def _reseed(request: SpawnRequest) -> None:
    """Reseed the random generators, whose state a forked process inherits.

    trio has a generator of its own.
    """
    random.seed(f"{request.seed} {request.name}" if request.seed else None)
    with contextlib.suppress(AttributeError):
        trio._core._run._r.seed()  # noqa: SLF001


def spawn_argument(request: SpawnRequest) -> str:
    return json.dumps(attrs.asdict(request))


def main() -> NoReturn:
    given = json.loads(sys.argv[1])
    run_child(SpawnRequest(**{**given, "clock": ClockSettings(**given["clock"])}), int(sys.argv[2]))


if __name__ == "__main__":
    main()
