"""Writes scenario files: sections of lines, as people write them.

JSON's strings, numbers and booleans are valid TOML.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def scenario_text(scenario: Mapping[str, Any], comments: tuple[str, ...] = ()) -> str:
    """Return the text of a scenario file."""
    parts = ["\n".join(f"# {line}" for line in comments)] if comments else []
    parts.append("\n".join(_lines({key: value for key, value in scenario.items() if not _is_section(value)})))
    for key, value in scenario.items():
        if isinstance(value, Mapping):
            parts.append("\n".join([f"[{key}]", *_lines(value)]))
        elif _is_section(value):
            parts += ["\n".join([f"[[{key}]]", *_lines(table)]) for table in value]
    return "\n\n".join(parts) + "\n"


def _is_section(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and all(isinstance(item, Mapping) for item in value))


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key} = {_value(value)}" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
