"""Commands for the table of actions, and the one that waits for a condition."""

from typing import Any

import click

from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.cli.number import NumberRange
from rmqlab.cluster.cli.output.progress import working
from rmqlab.cluster.cli.terms import (
    command,
    directory_of,
    fail,
    json_option,
    name_option,
    no_result,
    print_json,
    print_lines,
    targets_argument,
)
from rmqlab.cluster.supervisor.command import CommandFailedError, CommandLateError, CommandUsageError, ask
from rmqlab.cluster.supervisor.files.directory import NoClusterError
from rmqlab.cluster.supervisor.plan.targets import join_targets

_settings_option = click.option(
    "settings",
    "--set",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a setting of the brokers from this start on; repeatable.",
)


def command_of(action: NodeAction[Any]) -> click.Command:
    """Return the command of an action."""

    @name_option
    @json_option
    def act(targets: tuple[str, ...], name: str, *, as_json: bool, settings: tuple[str, ...] = ()) -> None:
        document = command(name, action.name, target=join_targets(targets), **_parsed(settings))
        if as_json:
            print_json(document)
            return
        print_lines(action.report.lines(document))

    options = _settings_option(act) if action.takes_settings else act
    return click.command(action.name, help=action.help)(targets_argument(options))


def _parsed(settings: tuple[str, ...]) -> dict[str, Any]:
    if not settings:
        return {}
    from rmqlab.cluster.cli.settings import parse_settings  # noqa: PLC0415 -- cattrs, for this option only

    return {"settings": parse_settings(settings)}


ACTION_COMMANDS = {action.name: command_of(action) for action in ACTIONS.values()}


@click.command()
@click.argument("condition", metavar="CONDITION [TARGET]", nargs=-1, required=True, help="A condition and its target.")
@name_option
@click.option("--timeout", type=NumberRange(min=0), default=60.0, help="Seconds of real time; 0: look once.")
@json_option
def wait(condition: tuple[str, ...], name: str, timeout: float, *, as_json: bool) -> None:
    """Wait until a condition is true; exit status 1 if it is not in time.

    Exit status 2 without a result, such as for a stopped cluster.

    Conditions: ready [TARGET]; stopped, killed, crashed, paused, power-lost, is-master TARGET; route-has, route-gone
    TARGET; slave-connected, slave-in-sync, slave-caught-up, metadata-synced GROUP; topic-known TARGET TOPIC.
    """
    text = " ".join(condition)
    try:
        with working(f"wait {text}"):
            document = ask(directory_of(name), "wait", condition=text, seconds=timeout)
    except CommandLateError as exc:
        fail(str(exc))
    except (CommandFailedError, CommandUsageError, NoClusterError) as exc:
        no_result(str(exc))
    if as_json:
        print_json(document)
