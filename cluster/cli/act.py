"""Commands for the table of actions, and the one that waits for a condition."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.cli.terms import DEFAULT_NAME, AsJson, Name, Targets, command, print_json, print_lines
from rmqlab.cluster.supervisor.targets import join_targets

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the brokers from this start on; repeatable."),
]


def command_of(action: NodeAction[Any]) -> Callable[..., None]:
    """Return the function of an action's command."""

    def act(targets: Targets, name: Name = DEFAULT_NAME, *, as_json: AsJson = False) -> None:
        run(targets, name, as_json=as_json)

    def run(targets: list[str], name: str, *, as_json: bool, **more: Any) -> None:
        document = command(name, action.name, target=join_targets(targets), **more)
        if as_json:
            print_json(document)
            return
        print_lines(action.report.lines(document))

    def act_with_settings(
        targets: Targets, settings: Settings = None, name: Name = DEFAULT_NAME, *, as_json: AsJson = False
    ) -> None:
        if not settings:
            act(targets, name, as_json=as_json)
            return
        from rmqlab.cluster.cli.settings import parse_settings  # noqa: PLC0415 -- cattrs, for this option only

        run(targets, name, as_json=as_json, settings=parse_settings(settings))

    function = act_with_settings if action.takes_settings else act
    function.__doc__ = action.help
    return function


ACTION_COMMANDS = {action.name: command_of(action) for action in ACTIONS.values()}


def wait(
    condition: Annotated[list[str], typer.Argument(help="A condition and its target.", metavar="CONDITION [TARGET]")],
    name: Name = DEFAULT_NAME,
    timeout: Annotated[float, typer.Option(min=0, help="Real seconds.")] = 60.0,
    *,
    as_json: AsJson = False,
) -> None:
    """Wait until a condition is true; exit status 1 if it is not in time.

    Conditions: ready [TARGET]; stopped, killed, crashed, paused, powerless, is-master TARGET; route-has, route-gone TARGET;
    slave-connected, slave-in-sync, slave-caught-up, metadata-synced GROUP; topic-known TARGET TOPIC.
    """
    document = command(name, "wait", condition=" ".join(condition), seconds=timeout)
    if as_json:
        print_json(document)
