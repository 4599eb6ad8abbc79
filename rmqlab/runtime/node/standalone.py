"""The command line of a server without a supervisor.

Commands: `python -m rmqlab.broker`, `python -m rmqlab.nameserver`. Exit status 0: the server was stopped, or the
settings are valid. 1: the settings are invalid, or the server did not start; the reason is one line on stderr. 2:
invalid command line.
"""

import argparse
import pathlib
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rmqlab.runtime.clock import ClockSettings, RatedClock
from rmqlab.runtime.config.settings import SettingsError
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.logfile import log_to_stderr
from rmqlab.runtime.node.process import run_process

Config = TypeVar("Config")


def run_standalone(
    what: str,
    load_config: Callable[[str | pathlib.Path], Config],
    main: Callable[[Config, ControlLink], Awaitable[None]],
    *,
    name_of: Callable[[Config], str],
) -> None:
    """Parse the command line and run the server.

    Changes of state are logged to stderr, one line each.
    """
    arguments = _parser(what).parse_args()
    log_to_stderr()
    try:
        config = load_config(arguments.config)
    except SettingsError as exc:
        sys.exit(str(exc))
    if arguments.check:
        print(f"{arguments.config}: a {what} can use it")
    else:
        run_process(main, config, control=None, clock=RatedClock(ClockSettings.starting_now()), name=name_of(config))


def _parser(what: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m rmqlab.{what}",
        description=f"Run one {what} of RocketMQ 4.9, without a supervisor, until Ctrl-C or SIGTERM.",
        epilog="Exit status: 0 stopped; 1 not started, see stderr; 2 invalid command line.",
    )
    parser.add_argument("config", metavar="CONFIG", help="a .toml file, or a .properties or .conf file of RocketMQ")
    parser.add_argument("--check", action="store_true", help="only check whether the file is valid")
    return parser
