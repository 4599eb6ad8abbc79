"""Results of operations as plain values, for JSON."""

from typing import Any

import attrs


def as_json(value: Any) -> Any:
    """Return a result, or a list of results, as dicts, lists and plain values."""
    if hasattr(value, "as_json"):
        return value.as_json()
    if attrs.has(type(value)):
        return attrs.asdict(value)
    return [as_json(one) for one in value] if isinstance(value, list | tuple) else value
