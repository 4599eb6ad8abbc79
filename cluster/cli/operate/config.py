"""config: get, set."""

from typing import Annotated

import typer

from rmqlab.cluster.cli.operate.command import Lines, operation, operator_app
from rmqlab.cluster.cli.operate.rows import table_of
from rmqlab.cluster.operate import settings
from rmqlab.cluster.operate.session import Operator
from rmqlab.cluster.operate.values import parse_settings

config_app = operator_app("Show and change settings of running brokers and name servers.")

SettingsOf = Annotated[
    str, typer.Argument(help="broker-a, broker-a:slave, broker-a-s, or namesrv.", metavar="BROKER|namesrv")
]


def _shown(result: list[settings.SettingsAt]) -> Lines:
    rows = [(one.server, key, value) for one in result for key, value in one.settings.items()]
    yield table_of("SERVER|KEY|VALUE", rows)


def _changed(result: list[settings.ChangedSetting]) -> Lines:
    yield table_of("SERVER|KEY|BEFORE|NOW", ((one.server, one.key, one.before, one.after) for one in result))


@config_app.command("get")
@operation(_shown)
async def get(
    operator: Operator,
    target: SettingsOf,
    keys: Annotated[list[str] | None, typer.Argument(help="Only these keys.", metavar="[KEY]...")] = None,
) -> list[settings.SettingsAt]:
    """Show settings by RocketMQ's names."""
    return await settings.get_settings(operator, target, keys or ())


@config_app.command("set")
@operation(_changed)
async def set_config(
    operator: Operator,
    target: SettingsOf,
    changes: Annotated[list[str], typer.Argument(help="Such as slaveReadEnable=true.", metavar="KEY=VALUE...")],
) -> list[settings.ChangedSetting]:
    """Change settings at once, and in the server's settings file.

    `rmqlab up` writes the files of its cluster anew: what must last is set with `up --set`.
    """
    return await settings.set_settings(operator, target, parse_settings(changes))
