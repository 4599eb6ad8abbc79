"""Commands that break links, disks, requests and clocks, and heal them again."""

from typing import Annotated, Any

import typer

from rmqlab.cluster.cli.fault_options import family_command
from rmqlab.cluster.cli.tables import render_faults
from rmqlab.cluster.cli.terms import (
    DEFAULT_NAME,
    AsJson,
    Name,
    command,
    console,
    directory_of,
    fail,
    misused,
    print_json,
)
from rmqlab.cluster.supervisor.command import CommandFailedError, CommandUsageError, Item, ask_stream
from rmqlab.cluster.supervisor.directory import NoClusterError
from rmqlab.faults import FAULTS, describe_fault
from rmqlab.runtime.printable import printable

fault_app = typer.Typer(
    help="Put a fault in force. It has an id, is shown by `faults`, and ends with `heal ID`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _apply(name: str, values: dict[str, Any], *, as_json: bool) -> None:
    active = command(name, "fault", values={key: value for key, value in values.items() if value is not None})
    if as_json:
        print_json(active)
    else:
        console.print(printable(f"{active['id']}: {describe_fault(active)}"))


for _family in FAULTS.families.values():
    if not _family.base.has_own_command:
        fault_app.command(_family.name)(family_command(_family, _apply))


@fault_app.command("random")
def random_faults(
    every: Annotated[float, typer.Option(help="Seconds of the cluster's clock between them.")] = 30.0,
    of: Annotated[str, typer.Option(help="Some of kill, stop, pause, power-loss, isolate.")] = "kill,pause,isolate",
    on: Annotated[str, typer.Option(help="masters, slaves, brokers, nameservers, or a target.")] = "masters",
    heal_after: Annotated[float, typer.Option(help="Seconds until it is undone.")] = 20.0,
    seed: Annotated[int, typer.Option(help="The same seed does the same to the same cluster.")] = 0,
    count: Annotated[int, typer.Option(min=0, help="How many. 0: until Ctrl-C.")] = 0,
    name: Name = DEFAULT_NAME,
    *,
    as_json: AsJson = False,
) -> None:
    """Inject faults into random nodes until Ctrl-C, which then undoes those in force."""
    values = {
        "every": every,
        "of": [action for action in of.split(",") if action.strip()],
        "on": on,
        "heal_after": heal_after,
        "seed": seed,
        "count": count,
    }
    try:
        for message in ask_stream(directory_of(name), "random-faults", **values):
            if isinstance(message, Item):
                print_json(message.value) if as_json else console.print(_strike_line(message.value))
    except KeyboardInterrupt:
        console.print("what is in force is undone")
    except CommandUsageError as exc:
        misused(str(exc))
    except (CommandFailedError, NoClusterError) as exc:
        fail(str(exc))


def faults(name: Name = DEFAULT_NAME, *, as_json: AsJson = False) -> None:
    """List the faults in force."""
    active = command(name, "faults")
    if as_json:
        print_json(active)
    else:
        console.print(render_faults(active))


def heal(
    ids: Annotated[list[str], typer.Argument(help="Ids as `faults` lists them, or all.", metavar="ID...|all")],
    name: Name = DEFAULT_NAME,
    *,
    as_json: AsJson = False,
) -> None:
    """End faults."""
    healed = command(name, "heal", ids=ids)
    if as_json:
        print_json(healed)
        return
    for fault in healed:
        console.print(printable(f"{fault['id']} is healed: {describe_fault(fault)}"))
    if not healed:
        console.print("no fault is in force")


def _strike_line(strike: dict[str, Any]) -> str:
    error = f": {strike['error']}" if strike["error"] else ""
    return printable(f"{strike['at']:8.2f} s  {strike['action']} {strike['target']}{error}")
