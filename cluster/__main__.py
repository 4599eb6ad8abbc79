"""The command `rmqlab`."""

import importlib.metadata
import logging
from typing import Annotated

import typer

import rmqlab
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.cli.act import command_of, wait
from rmqlab.cluster.cli.check import check
from rmqlab.cluster.cli.compare import compare
from rmqlab.cluster.cli.demo import demo
from rmqlab.cluster.cli.diff import diff
from rmqlab.cluster.cli.diverged import diverged
from rmqlab.cluster.cli.fault import fault_app, faults, heal
from rmqlab.cluster.cli.hunt import hunt
from rmqlab.cluster.cli.mark import mark
from rmqlab.cluster.cli.overview import ls
from rmqlab.cluster.cli.panels import CommandList
from rmqlab.cluster.cli.plant import plant
from rmqlab.cluster.cli.scenario import repro, run, scenarios
from rmqlab.cluster.cli.show import events, logs, status
from rmqlab.cluster.cli.terms import JSON_VERSION, misused, print_json
from rmqlab.cluster.cli.up import down, up
from rmqlab.cluster.cli.watch import watch
from rmqlab.cluster.cli.work import consume, produce
from rmqlab.cluster.supervisor.directory import NoPlaceError
from rmqlab.cluster.supervisor.ports import loopback_network
from rmqlab.runtime.logfile import log_to_stderr

app = typer.Typer(
    name="rmqlab",
    help="A RocketMQ 4.9 master/slave cluster on this machine: start it, break it, watch it, judge it.",
    cls=CommandList,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(is_given: bool) -> None:  # noqa: FBT001 -- typer passes an option's value by position
    if is_given:
        print(f"rmqlab {rmqlab.__version__}")
        raise typer.Exit


def _print_json_version(is_given: bool) -> None:  # noqa: FBT001 -- as above
    if is_given:
        print_json(JSON_VERSION)
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
]
JsonVersion = Annotated[
    bool,
    typer.Option(
        "--json-version", callback=_print_json_version, is_eager=True, help="Show the version of --json and exit."
    ),
]


@app.callback()
def _options(*, version: Version = False, json_version: JsonVersion = False) -> None:
    del version, json_version  # their callbacks have printed them
    try:
        loopback_network()
    except NoPlaceError as exc:
        misused(str(exc))


app.command()(demo)
app.command()(up)
app.command()(status)
app.command()(watch)
app.command()(ls)
app.command()(mark)
for action in ACTIONS.values():
    app.command(action.name)(command_of(action))
app.add_typer(fault_app, name="fault")
app.command()(faults)
app.command()(heal)
app.command()(diff)
app.command()(diverged)
app.command()(wait)
app.command()(logs)
app.command()(events)
app.command()(produce)
app.command()(consume)
app.command()(down)
app.command()(check)
app.command(hidden=True)(plant)
app.command()(scenarios)
app.command()(run)
app.command()(repro)
app.command()(compare)
app.command()(hunt)
for extra in importlib.metadata.entry_points(group="rmqlab.commands"):  # of packages that we do not import
    app.command(extra.name)(extra.load())


def main() -> None:
    log_to_stderr(logging.WARNING, "rmqlab: %(name)s: %(message)s")
    app(prog_name="rmqlab")


if __name__ == "__main__":
    main()
