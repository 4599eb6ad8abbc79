"""wipe-write-perm, add-write-perm."""

import click
from rich.text import Text

from rmqlab.cluster.cli.operate.command import Lines, operation
from rmqlab.cluster.operate import permissions
from rmqlab.cluster.operate.session import Operator
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.printable import printable

broker_name_argument = click.argument("broker", metavar="BROKER", help="A broker name, such as broker-a.")


def _changed(result: permissions.WritePermission) -> Lines:
    done = "added to" if result.can_write else "removed from"
    for address, topics in result.topics.items():
        if topics:
            text = f"write permission of {result.broker} {done} {counted(topics, 'topics')} at nameserver {address}"
            yield Text(printable(text))
        else:
            text = f"nothing changed at nameserver {address}: it has no topic of {result.broker}"
            yield Text(printable(f"{text}, because only masters register topics"), "yellow")


@click.command("wipe-write-perm")
@broker_name_argument
@operation(_changed)
async def wipe_write_perm(operator: Operator, broker: str) -> permissions.WritePermission:
    """Let producers avoid a broker: remove its write permission at all nameservers."""
    return await permissions.wipe_write_perm(operator, broker)


@click.command("add-write-perm")
@broker_name_argument
@operation(_changed)
async def add_write_perm(operator: Operator, broker: str) -> permissions.WritePermission:
    """Undo wipe-write-perm."""
    return await permissions.add_write_perm(operator, broker)
