"""The two header codecs: JSON and RocketMQ's binary format. No I/O.

Sources: remoting-and-nameserver sections 1.3 to 1.5; classes RemotingCommand, RemotingSerializable,
RocketMQSerializable.
"""

import contextlib
import functools
import math
import struct
from collections.abc import Mapping, Sequence

import msgspec

from rmqlab.remoting.codes import VERSION, LanguageCode
from rmqlab.remoting.command import RESPONSE, Command
from rmqlab.remoting.fastjson import FastJsonError, TextLimits, parse_fastjson
from rmqlab.remoting.frame import JSON, ROCKETMQ, Frame, HeaderTooLargeError, RemoteProtocolError, frame_prefix
from rmqlab.remoting.header import MAX_FIELDS, Int
from rmqlab.remoting.templates import MAX_SIZE, MAX_TEMPLATES, Template, TemplateFields, text_of

_BINARY = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_MAX_SHORT = 2**15 - 1

DIALECT_LIMITS = TextLimits(values=20_000, size=2**20)
"""Limits of a JSON header that is not strict JSON of the usual types."""

_LANGUAGE_NAMES = {code.value: code.name for code in LanguageCode}
_LANGUAGE_CODES = {code.name: code.value for code in LanguageCode}


class _JsonHeader(msgspec.Struct, rename="camel", kw_only=True):
    """A received header.

    Every member is optional; unknown members are ignored (remoting#7).
    """

    code: Int = 0
    language: str | int | None = None
    version: Int = 0
    opaque: Int = 0
    flag: Int = 0
    remark: str | None = None
    ext_fields: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _JsonHeaderOut(msgspec.Struct, rename="camel", omit_defaults=True):
    """A header to send. Members are in alphabetical order, as fastjson writes them."""

    code: int
    ext_fields: dict[str, str] | msgspec.UnsetType
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serialize_type: str = msgspec.field(name="serializeTypeCurrentRPC")
    version: int


_decode_json = msgspec.json.Decoder(_JsonHeader, strict=False).decode
_encode_json = msgspec.json.Encoder().encode
_NO_FIELDS = msgspec.Raw(b"null")


def decode_command(frame: Frame) -> Command:
    """Return the command in a frame. RemoteProtocolError if the header is invalid."""
    if frame.serialize_type == JSON:
        return _command_from_json(frame.header, frame.body)
    return _command_from_binary(frame.header, frame.body)


def _command_from_json(raw: bytes, body: bytes) -> Command:
    try:
        header = _decode_json(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        header = _lenient_json_header(raw)
    fields = header.ext_fields
    return Command(
        header.code,
        header.opaque,
        header.flag,
        _language(header.language),
        header.version,
        header.remark,
        body,
        JSON,
        None if fields is msgspec.UNSET or fields == _NO_FIELDS else fields,
    )


def _language(given: str | int | None) -> str:
    """Return the name of a language; OTHER for an unknown one.

    Members of groups keep it, so it must not be a text of any length.
    """
    if isinstance(given, str):
        return given if given in _LANGUAGE_CODES else "OTHER"
    return _LANGUAGE_NAMES.get(given or 0, "OTHER")


def _lenient_json_header(raw: bytes) -> _JsonHeader:
    """Parse a header as leniently as fastjson.

    Accepts bare and single-quoted names, null instead of a number, numbers instead of text, and so on.
    """
    try:
        value = parse_fastjson(raw, DIALECT_LIMITS)
        if not isinstance(value, dict):
            raise RemoteProtocolError(f"JSON header is not an object: {raw[:80]!r}")
        fields = value.pop("extFields", None)
        for name in _NUMBERS & value.keys():
            value[name] = _number_as_java(value[name])
        if not isinstance(value.get("remark"), str | None):
            value["remark"] = _encode_json(value["remark"]).decode()
        header = msgspec.convert(value, _JsonHeader, strict=False)
        if isinstance(fields, dict):
            header.ext_fields = msgspec.Raw(_encode_json(fields))
    except (FastJsonError, msgspec.ValidationError) as exc:
        raise RemoteProtocolError(f"invalid JSON header: {exc}") from None
    except (TypeError, RecursionError) as exc:  # an object as a key, where only text is allowed
        raise RemoteProtocolError(f"JSON header with values that JSON cannot represent: {exc}") from None
    return header


_NUMBERS = {"code", "flag", "opaque", "version"}


def _number_as_java(value: object) -> object:
    """Return a value as fastjson converts it to int.

    null is 0, true is 1, fractions are truncated. The range is checked later.
    """
    if value is None or value == "":
        return 0
    return int(value) if isinstance(value, bool | float) and math.isfinite(value) else value


def _command_from_binary(raw: bytes, body: bytes) -> Command:
    try:
        code, language, version, opaque, flag, remark_size = _BINARY.unpack_from(raw)
        if remark_size < 0:
            raise RemoteProtocolError(f"invalid remark size: {remark_size} bytes")
        at = _BINARY.size
        remark = text_of(raw[at : at + remark_size]) if remark_size else None
        at += remark_size
        (fields_size,) = _INT.unpack_from(raw, at)
        fields = _fields_from_binary(raw, at + 4, fields_size) if fields_size > 0 else None
    except (struct.error, IndexError) as exc:
        raise RemoteProtocolError(f"invalid binary header: {exc}") from None
    return Command(code, opaque, flag, _LANGUAGE_NAMES.get(language, "OTHER"), version, remark, body, ROCKETMQ, fields)


_templates: dict[int, Template] = {}
"""Templates by size of the ext fields in bytes."""


def _fields_from_binary(raw: bytes, at: int, size: int) -> dict[str, str] | TemplateFields:
    if at + size > len(raw):
        raise RemoteProtocolError(f"{size} bytes of ext fields exceed a header of {len(raw)} bytes")
    block, template = raw[at : at + size], _templates.get(size)
    if template is not None and (matched := template.match(block)) is not None:
        return matched
    fields, sizes = _read_fields(block)
    if size <= MAX_SIZE and sizes:
        if template is None and len(_templates) >= MAX_TEMPLATES:
            _templates.clear()
        _templates[size] = (
            Template(block, fields, sizes, []) if template is None else template.grown(block, fields, sizes)
        )
    return fields


def _read_fields(raw: bytes) -> tuple[dict[str, str], list[int]]:
    """Return the fields and the sizes of their values.

    No sizes if the block is unsuitable as a template.
    """
    at, end, count = 0, len(raw), 0
    fields: dict[str, str] = {}
    sizes: list[int] = []
    is_plain = True
    while at < end:
        key_size = raw[at] << 8 | raw[at + 1]
        if key_size > _MAX_SHORT:
            raise RemoteProtocolError(f"an ext field with a name of {key_size} bytes: expected at most {_MAX_SHORT}")
        key_end = at + 2 + key_size
        (value_size,) = _INT.unpack_from(raw, key_end)
        value_at = key_end + 4
        key = text_of(raw[at + 2 : key_end])
        at = value_at + value_size
        count += 1
        if count > MAX_FIELDS:
            raise RemoteProtocolError(f"more than {MAX_FIELDS} ext fields")
        if value_size < 0 or at > end:
            raise RemoteProtocolError(f"ext field {key[:80]!r} of {value_size} bytes exceeds its header")
        if key and value_size:  # an empty name or value is null (remoting#8)
            is_plain = is_plain and key not in fields and key.isascii()
            fields[key] = text_of(raw[value_at:at])
            sizes.append(value_size)
        else:
            fields.pop(key, None)
            is_plain = False
    return fields, sizes if is_plain else []


def encode_command(command: Command) -> bytes:
    """Return the bytes of a whole command, in its own serialize type."""
    head = encode_head(command, len(command.body))
    return head + command.body if command.body else head


def encode_head(command: Command, body_size: int) -> bytes:
    """Return the bytes before the body.

    HeaderTooLargeError if they do not fit into a frame.
    """
    header = _json_header(command) if command.serialize_type == JSON else _binary_header(command)
    return frame_prefix(command.serialize_type, len(header), body_size) + header


def _json_header(command: Command) -> bytes:
    header = _JsonHeaderOut(
        command.code,
        msgspec.UNSET if command.raw_fields is None else command.ext_fields,
        command.flag,
        command.language,
        command.opaque,
        msgspec.UNSET if command.remark is None else command.remark,
        "JSON",
        command.version,
    )
    return _encode_json(header)


@functools.lru_cache(1024)
def _sized_short_name(name: str) -> bytes:
    raw = _utf8(name)
    if len(raw) > _MAX_SHORT:
        raise HeaderTooLargeError(f"ext field {name[:80]!r}: name has {len(raw)} bytes; at most {_MAX_SHORT} fit")
    return _SHORT.pack(len(raw)) + raw


def _sized_name(name: str) -> bytes:
    """Return a name after its size.

    Only short names are cached: a peer's can be as long as a frame.
    """
    return _sized_short_name(name) if len(name) <= _CACHED_NAME else _sized_short_name.__wrapped__(name)


_CACHED_NAME = 64


def _utf8(text: str) -> bytes:
    """Return text as UTF-8. As in Java, a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace")


def _as_short(value: int) -> int:
    """Return the low 16 bits as a signed number.

    Java's writeShort writes a code or version so.
    """
    return (value + 0x8000 & 0xFFFF) - 0x8000


def _binary_header(command: Command) -> bytes:
    """Return a binary header.

    HeaderTooLargeError if the name of an ext field is too long.
    """
    remark = _utf8(command.remark) if command.remark else b""
    parts: list[bytes] = []
    for key, value in command.ext_fields.items():
        text = _utf8(value)
        parts += (_sized_name(key), _INT.pack(len(text)), text)
    fields = b"".join(parts)
    language = _LANGUAGE_CODES.get(command.language, LanguageCode.OTHER)
    fixed = _BINARY.pack(
        _as_short(command.code), language, _as_short(command.version), command.opaque, command.flag, len(remark)
    )
    return fixed + remark + _INT.pack(len(fields)) + fields


def encode_reply_head(
    request: Command, code: int, fields: dict[str, str] | None, remark: str | None, body_size: int
) -> bytes:
    """Return the bytes before the body of a reply.

    The reply has the opaque and the codec of the request, and the flag is exactly 1 (remoting#3, #4). A reply that the
    binary codec cannot represent is sent as JSON, which every peer reads. HeaderTooLargeError if it does not fit into
    a frame.
    """
    # 4.9 servers send language JAVA; old clients reject most other names
    reply = Command(code, request.opaque, RESPONSE, "JAVA", VERSION, remark, b"", request.serialize_type, fields)
    if reply.serialize_type == ROCKETMQ:
        with contextlib.suppress(HeaderTooLargeError):
            return encode_head(reply, body_size)
        reply.serialize_type = JSON
    return encode_head(reply, body_size)


class ReplyHead:
    """Preformatted head of replies with fixed ext field names and a fixed remark.

    Encoding the reply to a send costs as much as storing the message, and only the numbers differ between replies.
    """

    def __init__(self, constants: Mapping[str, str], names: Sequence[str], remark: str | None = None) -> None:
        members = [_encode_json(key) + b":" + _encode_json(value) for key, value in constants.items()]
        blanks = [_encode_json(name) for name in names]
        self._json = b"".join((
            b'{"code":%d,"extFields":{',
            b",".join([_literal(member) for member in members] + [_literal(blank) + b':"%b"' for blank in blanks]),
            b'},"flag":1,"language":"JAVA","opaque":%d,',
            b"" if remark is None else b'"remark":' + _literal(_encode_json(remark)) + b",",
            b'"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION,
        ))  # fmt: skip
        fixed = b"".join([_sized_name(name) + _sized_text(value) for name, value in constants.items()])
        sized_names = [_sized_name(name) for name in names]
        self._binary = _literal(fixed) + b"".join([_literal(name) + b"%b" for name in sized_names])
        self._fields_size = len(fixed) + sum(map(len, sized_names))
        self._remark = b"" if remark is None else _utf8(remark)
        # Frame prefix, binary header with the remark, size of the fields.
        self._prefix = struct.Struct(f">iIhBhiii{len(self._remark)}si")

    def encode(self, request: Command, code: int, values: Sequence[bytes], body_size: int = 0) -> bytes:
        """Return the bytes before the body of a reply.

        Values are ASCII digits, hex or commas.
        """
        if request.serialize_type == JSON:
            header = self._json % (code, *values, request.opaque)
            return frame_prefix(JSON, len(header), body_size) + header
        sized = [_INT.pack(len(value)) + value for value in values]
        remark, fields_size = self._remark, self._fields_size + sum(map(len, sized))
        header_size = _REPLY_FIXED + len(remark) + fields_size
        prefix = self._prefix.pack(
            4 + header_size + body_size, ROCKETMQ << 24 | header_size, _as_short(code), _JAVA, VERSION,
            request.opaque, RESPONSE, len(remark), remark, fields_size,
        )  # fmt: skip
        return prefix + self._binary % tuple(sized)


def _literal(raw: bytes) -> bytes:
    """Escape bytes for use in a format."""
    return raw.replace(b"%", b"%%")


def _sized_text(text: str) -> bytes:
    raw = text.encode()
    return _INT.pack(len(raw)) + raw


_REPLY_FIXED = _BINARY.size + _INT.size
_JAVA = _LANGUAGE_CODES["JAVA"]
