"""Typed headers: the ext fields of a command as one frozen class per request.

On the wire every value is text (remoting-and-nameserver section 1.8); some clients send JSON numbers and
booleans, which mean their text. A header class names its fields in Python's form; `rename="camel"` gives
the wire's.
"""

import enum
from collections.abc import Mapping
from typing import Any, TypeVar

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


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all typed headers. None means: the key is absent."""


H = TypeVar("H", bound=Header)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


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
    except msgspec.ValidationError:
        try:
            fields = msgspec.json.decode(raw, type=dict[str, Any])  # the slow road: a number where text is due, say
        except (msgspec.ValidationError, UnicodeDecodeError) as exc:
            raise HeaderError(f"{kind.__name__}: {exc}") from None
        return header_from_fields(kind, {key: _text(value) for key, value in fields.items() if value is not None})
    return header


def header_from_fields(kind: type[H], fields: Mapping[str, object]) -> H:
    """Read ext fields that are already split into names and text. HeaderError where they do not fit."""
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as exc:
        raise HeaderError(f"{kind.__name__}: {exc}") from None


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
