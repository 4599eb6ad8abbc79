"""config: get, set."""

import click

from rmqlab.cluster.cli.group import CommandGroup
from rmqlab.cluster.cli.operate.command import Lines, operation
from rmqlab.cluster.cli.operate.rows import table_of
from rmqlab.cluster.operate import settings
from rmqlab.cluster.operate.session import Operator
from rmqlab.cluster.operate.values import parse_settings

config_app = CommandGroup("config", help="Show and change settings of running brokers and nameservers.")

settings_of_argument = click.argument(
    "target", metavar="BROKER|namesrv", help="broker-a, broker-a:slave, broker-a-s, or namesrv."
)


def _shown(result: list[settings.SettingsAt]) -> Lines:
    rows = [(one.server, key, value) for one in result for key, value in one.settings.items()]
    yield table_of("SERVER|KEY|VALUE", rows)


def _changed(result: list[settings.ChangedSetting]) -> Lines:
    yield table_of("SERVER|KEY|BEFORE|NOW", ((one.server, one.key, one.before, one.after) for one in result))


@config_app.command("get")
@settings_of_argument
@click.argument("keys", metavar="[KEY]...", nargs=-1, help="Only these keys.")
@operation(_shown)
async def get(operator: Operator, target: str, keys: tuple[str, ...]) -> list[settings.SettingsAt]:
    """Show settings by RocketMQ's names."""
    return await settings.get_settings(operator, target, keys or ())


@config_app.command("set")
@settings_of_argument
@click.argument("changes", metavar="KEY=VALUE...", nargs=-1, required=True, help="Such as slaveReadEnable=true.")
@operation(_changed)
async def set_config(operator: Operator, target: str, changes: tuple[str, ...]) -> list[settings.ChangedSetting]:
    """Change settings at once, and in the server's settings file.

    `rmqlab up` writes the files of its cluster anew: what must last is set with `up --set`.
    """
    return await settings.set_settings(operator, target, parse_settings(changes))
