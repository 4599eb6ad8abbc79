"""Commands that do something to nodes, and the one that waits for what comes of it."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from rmqlab.cluster.cli.terms import DEFAULT_NAME, AsJson, Name, Target, command, console, print_json

_VERBS = {
    "start": "Start what does not run, and return when it is ready.",
    "stop": "Stop in order: a broker unregisters first.",
    "kill": "kill -9: no goodbye, the sockets close.",
    "pause": "Freeze (SIGSTOP): the sockets stay open, nothing answers.",
    "resume": "Let a frozen node go on (SIGCONT).",
    "restart": "Stop, then start, and return when it is ready.",
}


def action(verb: str) -> Callable[..., None]:
    """The command of this verb."""

    def act(target: Target, name: Name = DEFAULT_NAME, *, as_json: AsJson = False) -> None:
        nodes: list[dict[str, Any]] = command(name, verb, target=target)
        if as_json:
            print_json(nodes)
            return
        for node in nodes:
            console.print(f"{node['name']} is {node['state']}" + (f" (pid {node['pid']})" if node["pid"] else ""))

    act.__doc__ = _VERBS[verb]
    return act


def power_loss(target: Target, name: Name = DEFAULT_NAME, *, as_json: AsJson = False) -> None:
    """kill -9, and what was not yet synced to disk is gone; `start` recovers the rest.

    Sockets close as at a kill: isolate the node before, if its peers shall not notice.
    """
    nodes: list[dict[str, Any]] = command(name, "power-loss", target=target)
    if as_json:
        print_json(nodes)
        return
    for node in nodes:
        console.print(f"{node['name']} is {node['state']}: {_loss(node['lost'])}")


def _loss(lost: dict[str, int]) -> str:
    if not lost["log_bytes"]:
        return "all of its commit log was on disk"
    return (
        f"lost {lost['log_bytes']} bytes of the commit log from offset {lost['flushed']} on,"
        f" with {lost['messages']} messages"
    )


def wipe(target: Target, name: Name = DEFAULT_NAME, *, as_json: AsJson = False) -> None:
    """kill -9, and its store is deleted: the next `start` finds an empty disk. Asks nothing."""
    nodes: list[dict[str, Any]] = command(name, "wipe", target=target)
    if as_json:
        print_json(nodes)
        return
    for node in nodes:
        console.print(f"{node['name']} is {node['state']}: deleted {node['deleted_files']} files")


ACTIONS = {verb: action(verb) for verb in _VERBS}


def wait(
    condition: Annotated[list[str], typer.Argument(help="A condition and its target.", metavar="CONDITION [TARGET]")],
    name: Name = DEFAULT_NAME,
    timeout: Annotated[float, typer.Option(min=0, help="Real seconds.")] = 60.0,
    *,
    as_json: AsJson = False,
) -> None:
    """Wait until something is true; exit status 1 when it is not in time.

    Conditions: ready [TARGET]; stopped, killed, crashed, paused, powerless TARGET; route-has, route-gone TARGET;
    slave-connected, slave-in-sync, slave-caught-up GROUP.
    """
    document = command(name, "wait", condition=" ".join(condition), seconds=timeout)
    if as_json:
        print_json(document)
