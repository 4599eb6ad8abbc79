"""wipe-write-perm, add-write-perm."""

import click
from rich.text import Text

from rmqlab.cluster.cli.operate.command import Lines, operation
from rmqlab.cluster.operate import permissions
from rmqlab.cluster.operate.session import Operator
from rmqlab.runtime.printable import printable

broker_name_argument = click.argument("broker", metavar="BROKER", help="A broker name, such as broker-a.")


def _changed(result: permissions.WritePermission) -> Lines:
    done = "added to" if result.can_write else "removed from"
    for address, topics in result.topics.items():
        yield Text(printable(f"write permission of {result.broker} {done} {topics} topics at nameserver {address}"))


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
