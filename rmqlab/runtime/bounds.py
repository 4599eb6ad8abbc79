"""Bounded copies of values from peers, for events, snapshots and journal entries.

No I/O.

A registration can contain an address of 6 MB, and a broker can have 100,000 groups. Before such values are encoded for
the supervisor, a journal or a command, long texts are truncated and end in `...(6000000 characters)`, long maps and
lists are truncated and end in the number of omitted items, and the total size is limited (issue 12.5).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import attrs

LEFT_OUT = "..."
"""Additional key of a truncated map; its value is the number of omitted entries."""
DEEPEST = 12
"""Maximum nesting of maps and lists; deeper values are omitted, which also ends cyclic structures."""

_MARK = re.compile(r"\.\.\.\([0-9]+ characters\)$")
_LONGEST_MARK = 40
_LEAST_INT = -(2**63)
_MOST_INT = 2**64 - 1
"""The integers that msgpack can encode."""
_SCALAR_BYTES = 9
_PLAIN = frozenset({bool, float, type(None)})


@attrs.frozen(kw_only=True)
class Bounds:
    """Limits for a copy of a value."""

    text: int = 4096
    """Maximum characters of one text."""
    items: int
    """Maximum entries of one map or list."""
    total: int
    """Maximum encoded size in bytes. The marks of truncated values can exceed it by a few hundred."""


EVENT = Bounds(items=5000, total=256 * 2**10)
"""Limits for the fields of an event, in a journal and in messages to the supervisor."""
SNAPSHOT = Bounds(items=2000, total=2**20)
"""Limits for the snapshot of a node."""


def bounded(value: object, bounds: Bounds) -> Any:
    """Return a copy of a value that msgpack can encode.

    It is made of None, bool, int, float, str, bytes, list and dict.
    """
    return _Copy(bounds).value(value, DEEPEST)


def bounded_fields(fields: Mapping[str, object], bounds: Bounds = EVENT) -> Mapping[str, Any]:
    """Return the bounded fields of an event.

    This is the same map if all its values are small and plain.
    """
    for value in fields.values():
        kind = type(value)
        if kind is str and len(value) <= bounds.text and value.isascii():  # type: ignore[arg-type,attr-defined]
            continue
        if kind is int and _LEAST_INT <= value <= _MOST_INT:  # type: ignore[operator]
            continue
        if kind not in _PLAIN:
            break
    else:
        if len(fields) <= bounds.items and len(fields) * bounds.text <= bounds.total:
            return fields
    copy: Mapping[str, Any] = bounded(fields, bounds)
    return copy


def cut_text(text: str, limit: int) -> str:
    """Return a text cut to `limit` characters.

    If it is cut, its original length is appended. Replaces lone surrogates. A text that was truncated before with the
    same limit stays unchanged.
    """
    if len(text) > limit and not (len(text) <= limit + _LONGEST_MARK and _MARK.search(text, limit)):
        text = f"{text[: max(limit, 0)]}...({len(text)} characters)"
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "backslashreplace").decode()
    return text


@attrs.define
class _Copy:
    """Builds one copy, and omits values once the total size is reached."""

    bounds: Bounds
    left: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.left = self.bounds.total

    def value(self, value: object, depth: int) -> Any:
        if type(value) is str:  # most values: `match` costs several times as much
            return self._text(value)
        if type(value) is dict:
            return self._map(value, depth)
        match value:
            case str():
                return self._text(str(value))
            case None | bool() | float():
                self.left -= _SCALAR_BYTES
                return value
            case int():
                return self._int(int(value))
            case bytes() | bytearray() | memoryview():
                return self._bytes(bytes(value[: self.bounds.text]), len(value))
            case Mapping():
                return self._map(value, depth)
            case list() | tuple() | set() | frozenset() | Sequence():
                return self._list(value, len(value), depth)
            case _:
                return self._text(_as_text(value))

    def _text(self, text: str) -> str:
        length = len(text)
        if length <= self.bounds.text and length <= self.left and text.isascii():
            self.left -= _SCALAR_BYTES + length
            return text
        cut = cut_text(text, min(self.bounds.text, max(self.left, 0)))
        self.left -= _SCALAR_BYTES + (len(cut) if cut.isascii() else len(cut.encode()))
        return cut

    def _int(self, number: int) -> int | str:
        if _LEAST_INT <= number <= _MOST_INT:
            self.left -= _SCALAR_BYTES
            return number
        return self._text(f"...(an integer of {number.bit_length()} bits)")

    def _bytes(self, beginning: bytes, length: int) -> bytes:
        kept = beginning[: max(self.left, 0)]
        self.left -= _SCALAR_BYTES + len(kept)
        return kept if len(kept) == length else kept + b"...(%d bytes)" % length

    def _map(self, value: Mapping[Any, object], depth: int) -> dict[Any, Any]:
        copy: dict[Any, Any] = {}
        missing = value.get(LEFT_OUT)
        entries, length = value.items(), len(value)
        if type(missing) is int and missing > 0:  # already truncated
            entries = ((key, item) for key, item in entries if key != LEFT_OUT)  # type: ignore[assignment]
            length += missing - 1
        taken = 0
        for key, item in islice(entries, self.bounds.items if depth > 0 else 0):
            if self.left <= 0:
                break
            kept = self._key(key)  # first: a long value must not use up the bytes of its own key
            copy[kept] = self.value(item, depth - 1)
            taken += 1
        if taken < length:
            copy[LEFT_OUT] = length - taken
        return copy

    def _key(self, key: object) -> str | int:
        if isinstance(key, int) and _LEAST_INT <= key <= _MOST_INT:
            self.left -= _SCALAR_BYTES
            return int(key)
        return self._text(key if isinstance(key, str) else _as_text(key))

    def _list(self, value: Iterable[object], length: int, depth: int) -> list[Any]:
        copy: list[Any] = []
        for item in islice(value, self.bounds.items if depth > 0 else 0):
            if self.left <= 0:
                break
            copy.append(self.value(item, depth - 1))
        if len(copy) < length:
            copy.append(f"...({length - len(copy)} more)")
        return copy


def _as_text(value: object) -> str:
    try:
        return str(value)
    except Exception as exc:  # noqa: BLE001 - foreign: an integer of many digits inside, a defect of its class
        return f"...({type(value).__name__}: {type(exc).__name__})"
