"""The command `rmqlab`."""

import logging
from typing import Any

import click

import rmqlab
from rmqlab.cluster.cli.commands import CommandTable
from rmqlab.cluster.cli.completion import completion_script
from rmqlab.cluster.cli.terms import JSON_VERSION, misused, print_json
from rmqlab.cluster.supervisor.detachedprocess import open_standard_streams
from rmqlab.cluster.supervisor.files.directory import SetupError
from rmqlab.cluster.supervisor.ports import loopback_network
from rmqlab.runtime.node.logfile import log_to_stderr


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
    except SetupError as exc:
        misused(str(exc))


def main() -> None:
    open_standard_streams()
    log_to_stderr(logging.WARNING, "rmqlab: %(message)s")
    app(prog_name="rmqlab")


if __name__ == "__main__":
    main()
