"""Commands that break links, disks, requests and clocks, and heal them again."""

import signal
from typing import Any

import click

from rmqlab.cluster.cli.fault_options import family_command, invalid_options
from rmqlab.cluster.cli.group import CommandGroup
from rmqlab.cluster.cli.number import Number
from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.output.tables import render_faults
from rmqlab.cluster.cli.terms import command, directory_of, fail, json_option, misused, name_option, print_json
from rmqlab.cluster.supervisor.command import CommandFailedError, CommandUsageError, Item, ask_stream
from rmqlab.cluster.supervisor.files.directory import NoClusterError
from rmqlab.faults import FAULTS, describe_fault
from rmqlab.runtime.interrupts import as_ctrl_c
from rmqlab.runtime.text.printable import printable


class FaultGroup(CommandGroup):
    """The commands of the families, without those that have a command of their own."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; name the command for `fault isolate`, `fault latency`."""
        word = args[0]
        family = FAULTS.families.get(word)
        if family is not None and family.base.has_own_command:
            ctx.fail(f"No such command {word!r}. Did you mean 'rmqlab {word}'?")
        kinds = [f"'rmqlab fault {name} --kind {word}'" for name, one in FAULTS.families.items() if word in one.kinds]
        if word not in self.commands and kinds:
            ctx.fail(f"No such command {word!r}. Did you mean {' or '.join(kinds)}?")
        return super().resolve_command(ctx, args)


fault_app = FaultGroup(
    "fault", help="Put a fault in force. It has an id, is shown by `faults`, and ends with `heal ID`."
)


def _apply(name: str, values: dict[str, Any], *, as_json: bool) -> None:
    given = {key: value for key, value in values.items() if value is not None}
    if problem := invalid_options(FAULTS.families[given["type"]], given):
        misused(problem)
    active = command(name, "fault", values=given)
    if as_json:
        print_json(active)
    else:
        console.print(printable(f"{active['id']}: {describe_fault(active)}"))


for _family in FAULTS.families.values():
    if not _family.base.has_own_command:
        fault_app.add_command(family_command(_family, _apply))


@fault_app.command("random")
@click.option("--every", type=Number(), default=30.0, help="Seconds of the cluster's clock between two faults.")
@click.option(
    "--of", default="kill,pause,isolate", help="Which faults, with commas: kill, stop, pause, power-loss, isolate."
)
@click.option("--on", default="masters", help="Which nodes: masters, slaves, brokers, nameservers, or a target.")
@click.option(
    "--heal-after", type=Number(), default=20.0, help="Seconds of the cluster's clock until a fault is undone."
)
@click.option("--seed", type=int, default=0, help="Random seed: the same one repeats the faults on the same cluster.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Number of faults; 0: until Ctrl-C.")
@name_option
@json_option
def random_faults(
    every: float, of: str, on: str, heal_after: float, seed: int, count: int, name: str, *, as_json: bool
) -> None:
    """Inject faults into random nodes until Ctrl-C, which undoes those in force."""
    values = {
        "every": every,
        "of": [action for action in of.split(",") if action.strip()],
        "on": on,
        "heal_after": heal_after,
        "seed": seed,
        "count": count,
    }
    try:
        with as_ctrl_c(signal.SIGTERM):
            for message in ask_stream(directory_of(name), "random-faults", **values):
                if isinstance(message, Item):
                    print_json(message.value) if as_json else console.print(_strike_line(message.value))
    except KeyboardInterrupt:
        if not as_json:
            console.print("the faults in force are undone")
    except CommandUsageError as exc:
        misused(str(exc))
    except (CommandFailedError, NoClusterError) as exc:
        fail(str(exc))


@click.command()
@name_option
@json_option
def faults(name: str, *, as_json: bool) -> None:
    """List the faults in force."""
    active = command(name, "faults")
    if as_json:
        print_json(active)
    else:
        console.print(render_faults(active))


@click.command()
@click.argument("ids", metavar="ID...|all", nargs=-1, required=True, help="Ids as `faults` lists them, or all.")
@name_option
@json_option
def heal(ids: tuple[str, ...], name: str, *, as_json: bool) -> None:
    """End faults, by their ids or all of them."""
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
