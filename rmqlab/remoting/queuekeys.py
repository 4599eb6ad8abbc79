"""Message queues as keys of maps, which is what fastjson writes and JSON lacks.

Such keys become texts before a strict parser reads a body, and objects again afterwards: the parser of the dialect
takes ten times as long.
"""

import re
from typing import Any


class ObjectKey(dict[str, Any]):
    """An object that is the key of a map, such as a message queue.

    Do not modify it: it is hashed by value.
    """

    def __hash__(self) -> int:  # type: ignore[override]  # dict has none; equal content hashes equal here
        return hash(frozenset(self.items()))


_OBJECT = re.compile(rb'\{"brokerName":"([^"\\]*+)","queueId":(-?[0-9]{1,9}+),"topic":"([^"\\]*+)"\}:')
_SEPARATOR = rb"\u0000"
_AS_TEXT = rb'"\\u0000\1\\u0000\2\\u0000\3":'
_TEXT = re.compile("\0([^\0]*)\0(-?[0-9]{1,9})\0([^\0]*)")


def with_text_keys(raw: bytes) -> bytes:
    """Return a body with its queues as texts; the same object if it has none.

    Within a text the replacement ends that text, and a backslash follows: the result is no JSON then.
    """
    has_such_texts = _SEPARATOR in raw
    return raw if has_such_texts or not _OBJECT.search(raw) else _OBJECT.sub(_AS_TEXT, raw)


def with_object_keys(value: Any) -> Any:
    """Return a parsed value with its queues as objects."""
    if isinstance(value, dict):
        return {_object_of(key): with_object_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_object_keys(item) for item in value]
    return value


def _object_of(key: str) -> str | ObjectKey:
    found = _TEXT.fullmatch(key)
    if found is None:
        return key
    return ObjectKey(brokerName=found[1], queueId=int(found[2]), topic=found[3])
