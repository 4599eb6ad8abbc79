"""Commands for the table of actions, and the one that waits for a condition."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.cli.terms import DEFAULT_NAME, AsJson, Name, Target, command, console, print_json
from rmqlab.runtime.printable import printable


def command_of(action: NodeAction[Any]) -> Callable[..., None]:
    """Return the function of an action's command."""

    def act(target: Target, name: Name = DEFAULT_NAME, *, as_json: AsJson = False) -> None:
        document = command(name, action.name, target=target)
        if as_json:
            print_json(document)
            return
        for line in action.report.lines(document):
            console.print(printable(line))

    act.__doc__ = action.help
    return act


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
