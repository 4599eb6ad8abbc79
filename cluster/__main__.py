"""The command `rmqlab`."""

import errno
import logging
import sys
from typing import Any

import click

import rmqlab
from rmqlab.cluster.cli.commands import CommandTable
from rmqlab.cluster.cli.completion import completion_script
from rmqlab.cluster.cli.terms import JSON_VERSION, error_text, misused, print_json
from rmqlab.cluster.supervisor.directory import NoPlaceError
from rmqlab.cluster.supervisor.ports import loopback_network
from rmqlab.runtime.logfile import log_to_stderr

_DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Errors of writes and syncs, which name no file."""


def _print_version(ctx: click.Context, _option: click.Parameter, is_given: Any) -> None:
    if is_given and not ctx.resilient_parsing:
        print(f"rmqlab {rmqlab.__version__}")
        ctx.exit()


def _print_json_version(ctx: click.Context, _option: click.Parameter, is_given: Any) -> None:
    if is_given and not ctx.resilient_parsing:
        print_json(JSON_VERSION)
        ctx.exit()


def _print_completion(ctx: click.Context, _option: click.Parameter, shell: str | None) -> None:
    if shell and not ctx.resilient_parsing:
        print(completion_script(shell))
        ctx.exit()


@click.group(
    name="rmqlab",
    cls=CommandTable,
    help="A RocketMQ 4.9 master/slave cluster on this machine: start it, break it, watch it, judge it.",
    epilog="Begin with `rmqlab demo`, or with `rmqlab up --detach`. `rmqlab COMMAND -h` explains a command.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_print_version,
    is_eager=True,
    help="Show the version and exit.",
)
@click.option(
    "--json-version",
    is_flag=True,
    expose_value=False,
    callback=_print_json_version,
    is_eager=True,
    help="Show the version of --json and exit.",
)
@click.option(
    "--show-completion",
    metavar="SHELL",
    expose_value=False,
    callback=_print_completion,
    is_eager=True,
    help="Print the completion for bash, zsh or fish, and exit.",
)
def app() -> None:
    try:
        loopback_network()
    except NoPlaceError as exc:
        misused(str(exc))


def main() -> None:
    log_to_stderr(logging.WARNING, "rmqlab: %(name)s: %(message)s")
    try:
        app(prog_name="rmqlab")
    except (OSError, ExceptionGroup) as exc:
        if (failure := _disk_failure(exc)) is None:
            raise
        print(error_text(f"{failure.filename or 'the disk'}: {failure.strerror}"), file=sys.stderr)
        sys.exit(1)


def _disk_failure(exc: BaseException) -> OSError | None:
    """Return the failure of a path or a disk; None for a defect.

    A path that was given, or the machine, is its cause: a traceback would not help.
    """
    if isinstance(exc, BaseExceptionGroup):
        failures = [_disk_failure(one) for one in exc.exceptions]
        return None if None in failures else failures[0]
    if isinstance(exc, OSError) and (exc.filename is not None or exc.errno in _DISK_FAILURES):
        return exc
    return None


if __name__ == "__main__":
    main()
