"""Typed bodies: JSON as one frozen class per kind, read liberally, written as RocketMQ writes it.

A class declares its members in the order of their names, which is the order that fastjson writes. None means:
the member is absent. A map by number or by message queue is declared as just that.

Sources: broker-requests sections 0.3, 6.4; remoting-and-nameserver section 3.8; class RemotingSerializable.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec

from rmqlab.remoting.fastjson import MAX_TABLE_VALUES, MAX_VALUES, FastJsonError, parse_fastjson


class BodyError(ValueError):
    """The body is not what the request or response should carry. Answered with code 1."""


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What all JSON bodies share: reading, and the forms of writing."""

    max_values: ClassVar[int] = MAX_VALUES
    """Members and items that are read where the text is not JSON of the declared types. See `Table`."""

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Read JSON, or fastjson's dialect of it. Unknown members are ignored; BodyError where it does not fit."""
        if (decoder := _decoder(cls)) is not None and b"$ref" not in raw:
            try:
                body: Self = decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass  # the slow road takes more
            else:
                return body
        try:
            return msgspec.convert(cls.mended(_without_nulls(parse_fastjson(raw, cls.max_values))), cls, strict=False)
        except (FastJsonError, msgspec.ValidationError, RecursionError) as exc:
            raise BodyError(f"{cls.__name__}: {exc}") from None

    @classmethod
    def mended(cls, value: Any) -> Any:
        """Bring what an odd client wrote into the usual shape; only for values that did not fit at once."""
        return value

    def encode(self) -> bytes:
        """Write as a broker does: no blanks, bare digits as the keys of a map by number (broker-requests#54)."""
        return _compact(self, bare=True).encode()

    def encode_standard(self) -> bytes:
        """Write with all keys quoted: strict JSON, but for maps by message queue, which JSON cannot say."""
        return _compact(self, bare=False).encode()

    def encode_pretty(self) -> bytes:
        """Write as in the files under `config/`: a tab per level, maps by number on one line."""
        return _pretty(self, "\n").encode()

    def encode_browser_compatible(self) -> bytes:
        """Write strict JSON in ASCII with sorted keys: the route for clients of 4.9.4 and later (remoting#16)."""
        value = msgspec.json.decode(self.encode_standard())
        return json.dumps(value, sort_keys=True, separators=(",", ":")).replace("/", "\\/").encode()


class Table(Body, frozen=True, kw_only=True):
    """A body that lists a whole broker's topics, groups or queues: it may have more values than others."""

    max_values: ClassVar[int] = MAX_TABLE_VALUES


def encode_part(value: object) -> bytes:
    """Write an item of a list as `Body.encode` does: for a body that is too long to be written at once."""
    return _compact(value, bare=True).encode()


def encode_entry(key: object, value: object) -> bytes:
    """Write an entry of a map, likewise."""
    return f"{_key(key, bare=True)}:{_compact(value, bare=True)}".encode()


def encode_pretty_entry(key: object, value: object) -> bytes:
    """Write an entry of a map that is a member of a body, as `Body.encode_pretty` does, with the line feed before it."""
    inner = "\n\t\t"
    return f"{inner}{_key(key, bare=True)}:{_pretty(value, inner)}".encode()


@functools.cache
def _decoder(kind: type[Body]) -> msgspec.json.Decoder[Any] | None:
    """Give the fast road, or None where there is none: JSON proper has no objects as keys."""
    for info in _types_in(msgspec.inspect.type_info(kind)):
        if isinstance(info, msgspec.inspect.DictType) and isinstance(info.key_type, msgspec.inspect.StructType):
            return None
    return msgspec.json.Decoder(kind, strict=False)


@functools.cache
def _is_plain(kind: type[msgspec.Struct]) -> bool:
    """True where msgspec writes just what we would: nothing may be None, and all keys are text."""
    return not any(
        isinstance(info, msgspec.inspect.NoneType)
        or (isinstance(info, msgspec.inspect.DictType) and not isinstance(info.key_type, msgspec.inspect.StrType))
        for info in _types_in(msgspec.inspect.type_info(kind))
    )


def _types_in(info: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    """Give a type and all that it is made of."""
    yield info
    parts: Iterable[msgspec.inspect.Type] = ()
    match info:
        case msgspec.inspect.StructType(fields=fields):
            parts = [field.type for field in fields]
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            parts = (key, value)
        case msgspec.inspect.ListType(item_type=item):
            parts = (item,)
        case msgspec.inspect.UnionType(types=types):
            parts = types
    for part in parts:
        yield from _types_in(part)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def name_in(names: Sequence[str], given: object) -> str | None:
    """Give the name that an enum's name or ordinal stands for, or None where there is none such."""
    by_ordinal = {str(ordinal): str(name) for ordinal, name in enumerate(names)}
    text = str(given)
    return text if text in names else by_ordinal.get(text)


_write = msgspec.json.Encoder().encode


@functools.cache
def _members(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(kind))


def _key(key: object, *, bare: bool) -> str:
    if isinstance(key, int):
        return str(key) if bare else f'"{key}"'
    return _compact(key, bare=bare)


def _compact(value: object, *, bare: bool) -> str:
    if isinstance(value, msgspec.Struct) and not _is_plain(type(value)):
        pairs = [(name, getattr(value, attribute)) for attribute, name in _members(type(value))]
        return "{" + ",".join(f'"{name}":{_compact(item, bare=bare)}' for name, item in pairs if item is not None) + "}"
    if isinstance(value, Mapping):
        return (
            "{" + ",".join(f"{_key(key, bare=bare)}:{_compact(item, bare=bare)}" for key, item in value.items()) + "}"
        )
    if isinstance(value, (list, tuple, set, frozenset)):
        return "[" + ",".join(_compact(item, bare=bare) for item in value) + "]"
    return _write(value).decode()


def _pretty(value: object, line: str) -> str:
    """`line` is a line feed and the indentation of the level around this value."""
    if isinstance(value, msgspec.Struct):
        value = {
            name: item for attribute, name in _members(type(value)) if (item := getattr(value, attribute)) is not None
        }
    if not isinstance(value, Mapping) or not value:
        return _compact(value, bare=True)
    inner = line + "\t"
    if all(isinstance(key, int) for key in value):  # fastjson breaks the line only at the end of these
        return "{" + ",".join(f"{key}:{_pretty(item, inner)}" for key, item in value.items()) + line + "}"
    lines = (f"{inner}{_key(key, bare=True)}:{_pretty(item, inner)}" for key, item in value.items())
    return "{" + ",".join(lines) + line + "}"
