"""Typed JSON bodies: one frozen class per body.

They are parsed leniently and written exactly as RocketMQ does. A class declares its members in alphabetical order,
because fastjson writes them in that order. None means that the member is absent. Maps whose keys are numbers or message
queues are declared with these key types.

Sources: broker-requests sections 0.3, 6.4; remoting-and-nameserver section 3.8; class RemotingSerializable.
"""

import functools
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec

from rmqlab.remoting.fastjson import BODY_LIMITS, TABLE_LIMITS, FastJsonError, TextLimits, parse_fastjson

NO_OBJECT = (b"null", b"[]")
"""Bodies that fastjson parses as null where it expects an object."""


class BodyError(ValueError):
    """The body does not fit the request or response.

    Servers respond with code 1 (SYSTEM_ERROR).
    """


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base class of all JSON bodies: one parser and several output formats."""

    limits: ClassVar[TextLimits] = BODY_LIMITS
    """Limits of text that is not strict JSON of the declared types. See `Table`."""

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse JSON or fastjson's dialect of it. BodyError if the text does not fit.

        Unknown members are ignored.
        """
        if (decoder := _decoder(cls)) is not None and b"$ref" not in raw:
            try:
                body: Self = decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass  # the slow path below accepts more
            else:
                return body
        try:
            return msgspec.convert(cls.normalized(_without_nulls(parse_fastjson(raw, cls.limits))), cls, strict=False)
        except (FastJsonError, msgspec.ValidationError, RecursionError) as exc:
            raise BodyError(f"{cls.__name__}: {exc}") from None

    @classmethod
    def normalized(cls, value: Any) -> Any:
        """Return a value of unusual clients in the usual shape.

        Called only if the strict parser rejects it.
        """
        return value

    def encode(self) -> bytes:
        """Return JSON as a broker writes it.

        No spaces; the keys of maps by number are digits without quotes (broker-requests#54).
        """
        return _compact(self, bare=True).encode()

    def encode_standard(self) -> bytes:
        """Return JSON with quoted keys: strict JSON, except maps by message queue."""
        return _compact(self, bare=False).encode()

    def encode_pretty(self) -> bytes:
        """Return JSON as in the files under `config/`.

        A tab per level, maps by number on one line.
        """
        return _pretty(self, "\n").encode()

    def encode_browser_compatible(self) -> bytes:
        """Return strict ASCII JSON with sorted keys.

        Routes are sent to clients of 4.9.4 and later in this format (remoting#16).
        """
        value = msgspec.json.decode(self.encode_standard())
        return json.dumps(value, sort_keys=True, separators=(",", ":")).replace("/", "\\/").encode()


class Table(Body, frozen=True, kw_only=True):
    """A body that lists all topics, groups or queues of a broker.

    Its limits are higher.
    """

    limits: ClassVar[TextLimits] = TABLE_LIMITS


def encode_part(value: object) -> bytes:
    """Return a list item in the format of `Body.encode`.

    For bodies that are written in parts.
    """
    return _compact(value, bare=True).encode()


def encode_entry(key: object, value: object) -> bytes:
    """Return a map entry in the format of `Body.encode`.

    For bodies that are written in parts.
    """
    return f"{_key(key, bare=True)}:{_compact(value, bare=True)}".encode()


def encode_pretty_entry(key: object, value: object, depth: int = 2) -> bytes:
    """Return an entry of a map member in the format of `Body.encode_pretty`.

    It begins with a line feed, and `depth` tabs.
    """
    inner = "\n" + "\t" * depth
    return f"{inner}{_key(key, bare=True)}:{_pretty(value, inner)}".encode()


@functools.cache
def _decoder(kind: type[Body]) -> msgspec.json.Decoder[Any] | None:
    """Return msgspec's decoder, or None for classes with objects as map keys.

    Strict JSON lacks such keys.
    """
    for info in _types_in(msgspec.inspect.type_info(kind)):
        if isinstance(info, msgspec.inspect.DictType) and isinstance(info.key_type, msgspec.inspect.StructType):
            return None
    return msgspec.json.Decoder(kind, strict=False)


@functools.cache
def _is_plain(kind: type[msgspec.Struct]) -> bool:
    """True if msgspec's output needs no change.

    No member can be None, and all keys are text.
    """
    return not any(
        isinstance(info, msgspec.inspect.NoneType)
        or (isinstance(info, msgspec.inspect.DictType) and not isinstance(info.key_type, msgspec.inspect.StrType))
        for info in _types_in(msgspec.inspect.type_info(kind))
    )


def _types_in(info: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    """Yield a type and, recursively, the types that it contains."""
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
    """Return the enum name for a name or an ordinal, or None if it is unknown."""
    by_ordinal = {str(ordinal): str(name) for ordinal, name in enumerate(names)}
    text = str(given)
    return text if text in names else by_ordinal.get(text)


_write = msgspec.json.Encoder(enc_hook=operator.index).encode  # numbers of other packages, such as NumPy's
_LEAVES = frozenset({str, int, bool})


@functools.cache
def _members(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(kind))


def _key(key: object, *, bare: bool) -> str:
    if isinstance(key, int):
        return str(key) if bare else f'"{key}"'
    return _compact(key, bare=bare)


def _compact(value: object, *, bare: bool) -> str:
    if type(value) in _LEAVES:  # most values; the abstract class Mapping is slow to check
        return _write(value).decode()
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
    """Return a value as indented JSON.

    `line` is a line feed and the indentation of the enclosing level.
    """
    if isinstance(value, msgspec.Struct):
        value = {
            name: item for attribute, name in _members(type(value)) if (item := getattr(value, attribute)) is not None
        }
    if not isinstance(value, Mapping) or not value:
        return _compact(value, bare=True)
    inner = line + "\t"
    if all(isinstance(key, int) for key in value):  # fastjson breaks these maps only before the closing brace
        return "{" + ",".join(f"{key}:{_pretty(item, inner)}" for key, item in value.items()) + line + "}"
    lines = (f"{inner}{_key(key, bare=True)}:{_pretty(item, inner)}" for key, item in value.items())
    return "{" + ",".join(lines) + line + "}"
