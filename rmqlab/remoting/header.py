"""Typed headers: the ext fields of a command as one frozen class per request.

On the wire every value is text (remoting-and-nameserver section 1.8); some clients send JSON numbers and
booleans, which mean their text. A header class names its fields in Python's form; `rename="camel"` gives
the wire's.
"""

import enum
import functools
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import msgspec


class HeaderError(Exception):
    """The ext fields do not make the header that the request code asks for. Answered with code 1."""


class JavaBoolean(enum.Enum):
    """True only for the text `true` in any case: `1` is false (broker-requests#4).

    An enumeration of the two usual texts, for msgspec reads those without coming back to Python.
    """

    FALSE = "false"
    TRUE = "true"

    def __bool__(self) -> bool:
        return self is JavaBoolean.TRUE

    @classmethod
    def _missing_(cls, value: object) -> "JavaBoolean":
        is_true = value is True or (isinstance(value, str) and value.lower() == "true")
        return cls.TRUE if is_true else cls.FALSE


FALSE = JavaBoolean.FALSE
TRUE = JavaBoolean.TRUE


Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all typed headers. None means: the key is absent.

    A field without default is one that RocketMQ stumbles over when it is absent. A number that is none counts as
    absent; but where `is_strict` it makes the whole header unreadable (RemotingCommand.decodeCommandCustomHeader,
    and class FastCodesHeader).
    """

    is_strict: ClassVar[bool] = False


H = TypeVar("H", bound=Header)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_NUMBER = re.compile(r"[+-]?[0-9]{1,100}")
_DECIMAL = b'.0"'
"""In JSON that has this, a number may be one that msgspec takes for whole, and Java for none."""

_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode
_decoders: dict[type[Header], msgspec.json.Decoder[Any]] = {}


def header_from_json(kind: type[H], raw: bytes | msgspec.Raw) -> H:
    """Read the JSON object of the ext fields. HeaderError where it does not fit."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, strict=False)
    try:
        header: H = decoder.decode(raw)
    except UnicodeDecodeError:  # Java reads what is no text with replacement characters
        return header_from_json(kind, bytes(raw).decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError):
        return _header_as_java(kind, raw)
    return header if _DECIMAL not in bytes(raw) else _header_as_java(kind, raw)


def _header_as_java(kind: type[H], raw: bytes | msgspec.Raw) -> H:
    """Take the slow road: a number where text is due, or what is no number in Java."""
    return _read_as_java(kind, fields_from_json(raw))


def fields_from_json(raw: bytes | msgspec.Raw) -> dict[str, str]:
    """Read the JSON object of the ext fields as text by name. HeaderError where it is no object of readable values."""
    try:
        fields = _decode_fields(bytes(raw).decode("utf-8", "replace"))
        return {key: _text(value) for key, value in fields.items() if value is not None}
    except (msgspec.DecodeError, RecursionError) as exc:
        raise HeaderError(f"ext fields: {exc}") from None


def header_from_fields(kind: type[H], fields: Mapping[str, str]) -> H:
    """Read ext fields that are already split into names and text. HeaderError where they do not fit."""
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError:
        return _read_as_java(kind, fields)


def _read_as_java(kind: type[H], fields: Mapping[str, str]) -> H:
    values: dict[str, object] = {}
    for field in field_readers(kind):
        text = fields.get(field.wire_name)
        value = None if text is None else field.read(text)
        if value is not None:
            values[field.name] = value
        elif field.is_required or (text is not None and kind.is_strict):
            raise HeaderError(
                f"{kind.__name__}: {field.wire_name} is {'missing' if text is None else f'no number: {text[:80]!r}'}"
            )
    return kind(**values)


class FieldReader(NamedTuple):
    """What makes a value of a field's text."""

    name: str
    wire_name: str
    is_required: bool
    read: Callable[[str], object]
    """Answers None where the text is none of the field's type."""
    sure_digits: int
    """So many digits always make a number within its bounds; 0 for what is no number."""


@functools.cache
def field_readers(kind: type[Header]) -> list[FieldReader]:
    """One for each field of a header."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return [FieldReader(field.name, field.encode_name, field.required, *_reader(field.type)) for field in info.fields]


def _reader(info: msgspec.inspect.Type) -> tuple[Callable[[str], object], int]:
    if isinstance(info, msgspec.inspect.UnionType):
        info = next(one for one in info.types if not isinstance(one, msgspec.inspect.NoneType))
    if isinstance(info, msgspec.inspect.EnumType):
        return JavaBoolean, 0
    if isinstance(info, msgspec.inspect.IntType):
        return functools.partial(_whole, info.ge, info.le), len(str(info.le)) - 1
    return str, 0


def java_int(value: int) -> int:
    """Give a sum as Java's 32-bit arithmetic does: 2^31 becomes -2^31."""
    return (value + 2**31) % 2**32 - 2**31


def java_number(text: str) -> int:
    """Read what Java's parseInt reads. ValueError for all else: blanks, a point, what does not fit into 32 bits."""
    value = _whole(-(2**31), 2**31 - 1, text)
    if value is None:
        raise ValueError(f"no number: {text[:80]!r}")
    return value


def java_long(text: str) -> int:
    """Read what Java's parseLong reads. ValueError for all else, as in `java_number`, but with 64 bits."""
    value = _whole(-(2**63), 2**63 - 1, text)
    if value is None:
        raise ValueError(f"no number: {text!r}")
    return value


def _whole(lowest: int | None, highest: int | None, text: str) -> int | None:
    """As Java's parseInt and parseLong: a sign, digits, within bounds; else None."""
    value = int(text) if _NUMBER.fullmatch(text) else None
    if value is None or (lowest is not None and value < lowest) or (highest is not None and value > highest):
        return None
    return value


_wire_names: dict[type[Header], tuple[tuple[str, str], ...]] = {}


def header_to_fields(header: Header) -> dict[str, str]:
    """Give the ext fields of a header: every value as text, nothing for None."""
    kind = type(header)
    names = _wire_names.get(kind)
    if names is None:
        info = msgspec.structs.fields(kind)
        names = _wire_names[kind] = tuple((field.name, field.encode_name) for field in info)
    fields = {}
    for name, wire_name in names:
        value = getattr(header, name)
        if value is None:
            continue
        fields[wire_name] = ("true" if value else "false") if isinstance(value, (bool, JavaBoolean)) else str(value)
    return fields
