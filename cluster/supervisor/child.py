"""From birth to main function: what every process of a cluster does first, forked or executed.

Run as a module it is the plain way to start one, for where forking is not to be trusted:
`python -m rmqlab.cluster.supervisor.child BIRTH PARENT`, the birth as JSON.
"""

import contextlib
import importlib
import json
import os
import random
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import attrs
import cattrs
import trio

from rmqlab.faults.process import faults_of_process
from rmqlab.runtime.clock import ClockSettings, RatedClock
from rmqlab.runtime.journal import JournalWriter
from rmqlab.runtime.logfile import end_logging, log_to_file, open_log
from rmqlab.runtime.node_faults import PlainRules
from rmqlab.runtime.printable import printable_lines
from rmqlab.runtime.process import StartError, run_process
from rmqlab.runtime.settings import SettingsError

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


@attrs.frozen(kw_only=True)
class SpawnRequest:
    """All that a new process must know."""

    id: int
    name: str
    module: str
    """A module with `load_config(path)` and `async main(config, link)`."""
    config: str
    log: str
    """The file that stdout and stderr are appended to."""
    journal: str
    """The file that its events are appended to."""
    control: str
    """The socket where the supervisor listens."""
    clock: ClockSettings
    rules: PlainRules = attrs.field(factory=dict)
    """The fault rules in force when it starts."""
    seed: str = ""
    """What its random choices follow from; empty: chance."""


def live(birth: SpawnRequest, parent: int) -> NoReturn:
    """Be that process until its end. `parent` is the process that must not go before it."""
    status = 1
    try:
        _redirect_output(birth.log)
        _die_with_parent(parent, birth.name)
        _reseed(birth)
        log_to_file(Path(birth.log), takes_output=True)
        _run(birth)
        status = 0
    except SystemExit as exc:
        status = exc.code if isinstance(exc.code, int) else 1
    except BaseException:  # noqa: BLE001 -- the last frame of a process: told in its log, and in its exit status
        print(printable_lines(traceback.format_exc()), file=sys.stderr)
    finally:
        with contextlib.suppress(OSError, ValueError):
            end_logging()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # not sys.exit: a forked process must not run what its parent registered for its own exit


def _run(birth: SpawnRequest) -> None:
    module = importlib.import_module(birth.module)
    try:
        config = module.load_config(birth.config)
    except (SettingsError, StartError) as exc:
        print(printable_lines(f"{birth.name}: {exc}"), file=sys.stderr)
        sys.exit(1)
    clock = RatedClock(birth.clock)
    run_process(
        module.main,
        config,
        control=birth.control,
        clock=clock,
        name=birth.name,
        journal=JournalWriter(Path(birth.journal)),
        faults=faults_of_process(clock, birth.rules),
    )


def _redirect_output(path: str) -> None:
    with open_log(Path(path)) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]  # they are text files by now


def _die_with_parent(parent: int, name: str) -> None:
    """Ask Linux to kill us with our parent: a process that is stopped cannot see the end of its control channel."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 -- of use on Linux only

    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    if os.getppid() != parent:  # it went before we asked
        os._exit(1)


def _reseed(birth: SpawnRequest) -> None:
    """Forked processes share what their parent's generators would say next; trio shuffles its tasks by its own."""
    random.seed(f"{birth.seed} {birth.name}" if birth.seed else None)
    with contextlib.suppress(AttributeError):
        trio._core._run._r.seed()  # noqa: SLF001


def spawn_argument(birth: SpawnRequest) -> str:
    return json.dumps(cattrs.unstructure(birth))


def main() -> NoReturn:
    live(cattrs.structure(json.loads(sys.argv[1]), SpawnRequest), int(sys.argv[2]))


if __name__ == "__main__":
    main()
