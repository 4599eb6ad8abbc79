"""Settings of brokers on the command line: `--set KEY=VALUE`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from rmqlab.cluster.cli.terms import misused
from rmqlab.runtime.config.settings import snake
from rmqlab.runtime.config.tomltext import parse_toml

_Function = TypeVar("_Function", bound=Callable[..., Any])


def set_option(help_text: str) -> Callable[[_Function], _Function]:
    """Return the option `--set`, as parameter `settings`, with this help."""
    return click.option("settings", "--set", metavar="KEY=VALUE", multiple=True, help=help_text)


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse `key=value`.

    The key may be in camelCase; a value that is not a TOML scalar is a string.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        misused(f"--set {text}: expected KEY=VALUE, such as --set syncFlushTimeout=3000")
    name = spelled(key)
    try:
        parsed = parse_toml(f"value = {value}")
    except (ValueError, RecursionError):
        return name, value
    if parsed.keys() == {"value"} and isinstance(parsed["value"], (str, bool, int, float)):
        return name, parsed["value"]
    return name, value  # a date, a list or several lines: brokers take them as text


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Parse settings without targets, because the command names the nodes."""
    settings = dict(map(parse_setting, texts))
    for key in settings:
        if ":" in key:
            misused(f"--set {key}: expected a key without a target, because the command names the nodes")
    return settings


def spelled(key: str) -> str:
    """Return a key in our spelling; a target before it (`broker-a:key`) is kept."""
    target, colon, own = key.strip().rpartition(":")
    return f"{target}{colon}{snake(own)}"


def split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the settings of all brokers, and those of single targets."""
    of_all: dict[str, Any] = {}
    of_targets: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        target, _, own = key.rpartition(":")
        (of_targets.setdefault(target, {}) if target else of_all)[own] = value
    return of_all, of_targets
