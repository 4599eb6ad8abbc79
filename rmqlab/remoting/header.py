"""Typed headers: the ext fields of a command as one frozen class per request.

On the wire every value is text (remoting-and-nameserver section 1.8); some clients send JSON numbers and
booleans, which are converted to text. Header classes use Python's field names; `rename="camel"` converts them to the
names on the wire.
"""

import contextlib
import enum
import functools
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import msgspec


class HeaderError(Exception):
    """The ext fields do not fit the header of the request code.

    Servers respond with code 1.
    """


class JavaBoolean(enum.Enum):
    """True only for the text `true` in any case: `1` is false (broker-requests#4).

    An enumeration, because msgspec parses the two usual texts of one without calling Python code.
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
    """Base class of all typed headers. None means: the key is absent.

    Fields without default are those that RocketMQ requires. An invalid number counts as absent, but in a header with
    `is_strict` it makes the whole header invalid (RemotingCommand.decodeCommandCustomHeader, and class
    FastCodesHeader).
    """

    is_strict: ClassVar[bool] = False


H = TypeVar("H", bound=Header)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_NUMBER = re.compile(r"[+-]?[0-9]{1,100}")
_FRACTION = re.compile(rb':[-+0-9"\s]++(?<!")[.eE]')
"""Finds values, quoted or not, that begin with a number with a fraction or an exponent.

msgspec accepts `1.0` and `1e5` as integers, and Java rejects them. Each header is searched: headers have fewer colons
than quotes, and one class of characters is faster than two.
"""
_FRACTION_TEXT = re.compile(r"[-+]?[0-9]++[.eE]")

MAX_FIELDS = 20_000
"""Maximum number of ext fields in one header: RocketMQ sends up to 30, and millions of them take seconds."""
_UNCOUNTED = 2**16
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|,', re.DOTALL)

_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode
_decoders: dict[type[Header], msgspec.json.Decoder[Any]] = {}


def header_from_json(kind: type[H], raw: bytes | msgspec.Raw) -> H:
    """Parse the JSON object of the ext fields. HeaderError if it does not fit."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, strict=False)
    try:
        header: H = decoder.decode(raw)
    except UnicodeDecodeError:  # Java decodes invalid UTF-8 to replacement characters
        return header_from_json(kind, bytes(raw).decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError):
        return _header_as_java(kind, raw)
    return header if _FRACTION.search(bytes(raw)) is None else _header_as_java(kind, raw)


def _header_as_java(kind: type[H], raw: bytes | msgspec.Raw) -> H:
    """Parse on the slow path: numbers instead of text, or numbers that Java rejects."""
    return _read_as_java(kind, fields_from_json(raw))


def fields_from_json(raw: bytes | msgspec.Raw) -> dict[str, str]:
    """Parse the JSON object of the ext fields to text by name.

    HeaderError if it is invalid, or has more than MAX_FIELDS.
    """
    if len(raw) > _UNCOUNTED:
        _check_count(bytes(raw))
    try:
        fields = _decode_fields(bytes(raw).decode("utf-8", "replace"))
        return {key: _text(value) for key, value in fields.items() if value is not None}
    except (msgspec.DecodeError, RecursionError) as exc:
        raise HeaderError(f"ext fields: {exc}") from None


def _check_count(raw: bytes) -> None:
    """Raise HeaderError if JSON has too many members and items. It need not be valid.

    Up to three tokens belong to a member: two strings and a comma.
    """
    if next(itertools.islice(_TOKEN.finditer(raw), 3 * MAX_FIELDS, None), None) is not None:
        raise HeaderError(f"more than {MAX_FIELDS} ext fields")


def header_from_fields(kind: type[H], fields: Mapping[str, str]) -> H:
    """Return the typed header of these names and texts.

    HeaderError if they do not fit.
    """
    if not any(map(_FRACTION_TEXT.match, fields.values())):
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(fields, kind, strict=False)
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
                f"{kind.__name__}: {field.wire_name} is {'missing' if text is None else f'not a number: {text[:80]!r}'}"
            )
    return kind(**values)


class FieldReader(NamedTuple):
    """Converts the text of one field to its value."""

    name: str
    wire_name: str
    is_required: bool
    read: Callable[[str], object]
    """Returns None if the text is not of the field's type."""
    sure_digits: int
    """Numbers of up to this many digits are always in range; 0 for fields of other types."""


@functools.cache
def field_readers(kind: type[Header]) -> list[FieldReader]:
    """Return the readers of all fields of a header class."""
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
    """Return a sum wrapped to 32 bits, as in Java: 2^31 becomes -2^31."""
    return (value + 2**31) % 2**32 - 2**31


def java_long_sum(value: int) -> int:
    """Return a result wrapped to 64 bits, as in Java: 2^63 becomes -2^63."""
    return (value + 2**63) % 2**64 - 2**63


def java_number(text: str) -> int:
    """Parse an int as Java's parseInt.

    ValueError for spaces, fractions, or more than 32 bits.
    """
    value = _whole(-(2**31), 2**31 - 1, text)
    if value is None:
        raise ValueError(f"not a number: {text[:80]!r}")
    return value


def java_long(text: str) -> int:
    """Parse a long as Java's parseLong.

    ValueError as in `java_number`, but for more than 64 bits.
    """
    value = _whole(-(2**63), 2**63 - 1, text)
    if value is None:
        raise ValueError(f"not a number: {text[:80]!r}")
    return value


def _whole(lowest: int | None, highest: int | None, text: str) -> int | None:
    """Parse an integer as Java's parseInt and parseLong do.

    None if it is invalid or out of range.
    """
    value = int(text) if _NUMBER.fullmatch(text) else None
    if value is None or (lowest is not None and value < lowest) or (highest is not None and value > highest):
        return None
    return value


_wire_names: dict[type[Header], tuple[tuple[str, str], ...]] = {}


def header_to_fields(header: Header) -> dict[str, str]:
    """Return the ext fields of a header: its values as text, without None."""
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
