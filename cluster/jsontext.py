"""Encodes JSON documents for `--json` and the control API."""

import json
import math
from typing import Any


def json_text(value: Any) -> str:
    """Return a document on one line of ASCII.

    Other characters are escaped. NaN and infinities are texts.
    """
    try:
        return json.dumps(value, default=str, allow_nan=False)
    except (TypeError, ValueError):  # keys that are not text, NaN, infinities
        return json.dumps(_as_json(value), default=str)


def _as_json(value: Any) -> Any:
    match value:
        case dict():
            return {key if isinstance(key, str) else str(key): _as_json(item) for key, item in value.items()}
        case list() | tuple():
            return [_as_json(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value
