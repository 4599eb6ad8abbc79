"""Loads scenarios from TOML and reviews them.

Errors name file, line, key, and the expected value.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rmqlab.cluster.scenario.actions import SettingsChange
from rmqlab.cluster.scenario.binding import BindingError, bind_scenario
from rmqlab.cluster.scenario.binding import Path as KeyPath
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.scenario.review import review
from rmqlab.cluster.supervisor.check_settings import BadSettingsError, try_settings
from rmqlab.cluster.supervisor.plan.nodesettings import sets_to_try
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.cluster.supervisor.ports import has_loopback_network
from rmqlab.runtime.config.settings import camel, snake
from rmqlab.runtime.config.tomltext import BYTE_ORDER_MARK, parse_toml, toml_fault
from rmqlab.runtime.regularfile import read_regular_text

_SNAKE_KEY = re.compile(r"(?<![^ ])[a-z0-9]+(?:_[a-z0-9]+)+(?=[ ;?]|$)")
"""A key in an error of `try_settings`, as a word of its own."""
MOST_BYTES = 2**20
"""Bytes of a scenario."""


class ScenarioError(ValueError):
    """A scenario that cannot be played.

    The text names the file, the place, and the expected value.
    """


def load_scenario(path: Path) -> Scenario:
    """Read and review a scenario file. ScenarioError if it cannot be played."""
    return parse_scenario(scenario_text(path), str(path))


def scenario_text(path: Path) -> str:
    """Return the text of a scenario file. ScenarioError if it cannot be read."""
    try:
        return read_regular_text(path, MOST_BYTES).removeprefix(BYTE_ORDER_MARK)  # errors are found by line
    except (OSError, UnicodeDecodeError) as exc:
        raise ScenarioError(f"{path}: {getattr(exc, 'strerror', None) or 'is not UTF-8'}") from None


def parse_scenario(text: str, name: str = "scenario") -> Scenario:
    """As `load_scenario`, from a text. `name` is the name of the file in errors."""
    try:
        values = parse_toml(text)
    except (ValueError, RecursionError) as exc:  # also for numbers of thousands of digits, and deep lists
        line, reason = toml_fault(exc, text)
        raise ScenarioError(f"{name}:{line}: not TOML: {reason}") from None
    try:
        scenario = bind_scenario(values)
        review(scenario, is_single=not has_loopback_network())
    except BindingError as exc:
        raise _error_at(exc.path, str(exc), text, name) from None
    return scenario


def check_settings(scenario: Scenario, text: str, name: str = "scenario") -> None:
    """Check settings of a scenario, and of its steps, with a broker.

    ScenarioError if it rejects them.

    `text` and `name` are those of the file.
    """
    sets: list[tuple[KeyPath, Mapping[str, Any]]] = [
        (("cluster", "node_settings" if index else "broker_settings"), settings)
        for index, settings in enumerate(sets_to_try(scenario.cluster))
    ]
    sets += [
        (("step", index, step.action.verb), step.action.argument.settings)
        for index, step in enumerate(scenario.steps)
        if step.action and isinstance(step.action.argument, SettingsChange)
    ]
    for path, settings in sets:
        try:
            try_settings(settings, scenario.cluster.group_members)
        except BadSettingsError as exc:
            raise _error_at(path, str(exc), text, name) from None
    for index, step in enumerate(scenario.steps):
        if step.action and step.action.verb == "set-config":
            changes = step.action.argument.values["changes"]
            if fault := _fault_of_changes(changes, scenario.cluster):
                raise _error_at(("step", index, step.action.verb), fault, text, name)


def _fault_of_changes(changes: Mapping[str, str], cluster: ClusterSpec) -> str:
    """Return why a broker rejects changes by RocketMQ's keys, or an empty text."""
    ours = {snake(key): value for key, value in changes.items()}
    try:
        try_settings({**cluster.broker_settings, **ours}, cluster.group_members)
    except BadSettingsError as exc:
        return _SNAKE_KEY.sub(lambda key: camel(key[0]), str(exc))
    unread = next((key for key in changes if camel(snake(key)) != key), None)
    return f"unknown key {unread}; did you mean {camel(snake(unread))}?" if unread else ""


def _error_at(path: Sequence[str | int], message: str, text: str, name: str) -> ScenarioError:
    line = line_of(text, path)
    where = f"{name}:{line}" if line else name
    return ScenarioError(f"{where}: {_key_of(path)}: {message}" if path else f"{where}: {message}")


def _key_of(path: Sequence[str | int]) -> str:
    """Return a path as text, counted from 1: `step[2].kill`."""
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line of a key, or of the table that should have it.

    None if neither is found.
    """
    lines = text.splitlines()
    at, name, found = 0, "", None
    for index, part in enumerate(path):
        if isinstance(part, int):
            at = _nth(lines, rf"\s*\[\[\s*{re.escape(name)}\s*\]\]", part, 0)
        else:
            name = f"{name}.{part}" if name else part
            if index + 1 < len(path) and isinstance(path[index + 1], int):
                found = _key_line(lines, part, at) or found  # an array of inline tables
                continue
            header = _nth(lines, rf"\s*\[\[?\s*{re.escape(name)}\s*\]", 0, 0)
            of_subtable = _nth(lines, rf"\s*\[\s*{re.escape(name)}\s*\.", 0, 0)
            at = header or _key_line(lines, part, at) or of_subtable or at
        found = at or found
    return found


def _nth(lines: Sequence[str], pattern: str, count: int, start: int) -> int:
    """Return the number of the count-th matching line, counted from 0.

    0 if it is missing.
    """
    seen = [number for number, line in enumerate(lines, 1) if number > start and re.match(pattern, line)]
    return seen[count] if count < len(seen) else 0


def _key_line(lines: Sequence[str], key: str, start: int) -> int:
    """Return the line of a key in the table whose header is at `start`.

    0 if it is missing.
    """
    for number, line in enumerate(lines[start:], start + 1):
        if re.match(rf"\s*\"?{re.escape(key)}\"?\s*[=.]", line):
            return number
        if re.match(r"\s*\[\[?[\w.\" -]+\]\]?\s*(#.*)?$", line):
            return 0
    return 0
