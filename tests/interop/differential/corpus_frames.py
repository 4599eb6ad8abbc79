"""Frames and headers, right and wrong, at every port.

Played by hand: see compare.py.
"""

import json
import struct
from collections.abc import Callable, Iterator

from tests.interop.differential.case import Case
from tests.interop.differential.wire import JSON, ROCKETMQ, binary_header, frame, json_header

_PLAIN = {"namesrv": (105, {"topic": "NoSuchTopic"}), "master": (30, {"topic": "DiffQueues", "queueId": "0"})}
_PORTS = {"namesrv": "namesrv", "master": "master"}


def cases() -> Iterator[Case]:
    for to, kind in _PORTS.items():
        code, fields = _PLAIN[kind]
        for name, raw, opaque in [*_framed(code, fields), *_json_headers(code, fields), *_binary_headers(code, fields)]:
            yield Case(f"{to} frame: {name}", to, code, raw=raw, opaque=opaque, is_silent=name in _SILENT)


_SILENT = {"flag 1", "flag 2", "flag 3", "flag '2'", "binary flag 1", "binary flag 2"}

Raw = tuple[str, Callable[[int], bytes], int | None]


def _framed(code: int, fields: dict[str, str]) -> Iterator[Raw]:
    def made(codec: int, length: int, size: int) -> Callable[[int], bytes]:
        return lambda opaque: struct.pack(">iI", length, codec << 24 | size) + json_header(code, opaque, fields)

    header_size = len(json_header(code, 1000, fields))
    yield "right", lambda opaque: frame(JSON, json_header(code, opaque, fields)), None
    for codec in (2, 3, 127, 128, 255):
        yield f"codec {codec}", lambda opaque, codec=codec: frame(codec, json_header(code, opaque, fields)), None  # type: ignore[misc]
    for length in (-1, -(2**31), 0, 1, 3, 16_777_213, 2**31 - 1):
        yield f"length {length}", made(JSON, length, 10), None
    yield "header longer than the frame by one", made(JSON, 4 + header_size, header_size + 1), None
    yield "header of 16 MB", made(JSON, 4 + header_size, 0xFFFFFF), None
    yield "no header", lambda _opaque: frame(JSON, b""), None
    yield "no binary header", lambda _opaque: frame(ROCKETMQ, b""), None
    yield "JSON in a binary frame", lambda opaque: frame(ROCKETMQ, json_header(code, opaque, fields)), None
    yield "binary in a JSON frame", lambda opaque: frame(JSON, binary_header(code, opaque, fields)), None
    yield "HTTP", lambda _opaque: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None
    yield (
        "a body that nobody reads",
        lambda opaque: frame(JSON, json_header(code, opaque, fields), b"\0" * 70_000),
        None,
    )
    yield (
        "after another in one piece",
        lambda opaque: b"".join(frame(JSON, json_header(code, one, fields)) for one in (opaque + 1_000_000, opaque)),
        None,
    )


def _json_headers(code: int, fields: dict[str, str]) -> Iterator[Raw]:
    def header(text: str) -> Callable[[int], bytes]:
        return lambda opaque: frame(
            JSON,
            text.replace("OPAQUE", str(opaque)).replace("CODE", str(code)).replace("EXT", json.dumps(fields)).encode(),
        )

    def with_members(**members: object) -> Callable[[int], bytes]:
        return lambda opaque: frame(JSON, json_header(code, opaque, fields, **members))

    def without(member: str) -> Callable[[int], bytes]:
        def raw(opaque: int) -> bytes:
            head = json.loads(json_header(code, opaque, fields))
            del head[member]
            return frame(JSON, json.dumps(head).encode())

        return raw

    good = '"code":CODE,"flag":0,"language":"JAVA","opaque":OPAQUE,"version":409,"extFields":EXT'
    for text in ("null", "[]", "5", '"x"', "true", "abc", "{", "}", "{,}", " ", "\n"):
        yield f"header {text!r}", header(text), None
    yield "header '{}'", header("{}"), 0
    for name, text in {
        "line feed at the end": "{" + good + "}\n",
        "blanks around": " \t{ " + good.replace(",", " ,\n") + " } ",
        "comma at the end": "{" + good + ",}",
        "comma twice": "{" + good.replace(",", ",,", 1) + "}",
        "bare names": "{" + good.replace('"code"', "code").replace('"opaque"', "opaque") + "}",
        "single quotes": "{" + good.replace('"code"', "'code'").replace('"JAVA"', "'JAVA'") + "}",
        "a comment": "{/* hello */" + good + "}",
        "a line comment": "{// hello\n" + good + "}",
        "letters behind": "{" + good + "}xyz",
        "another object behind": "{" + good + "}{}",
        "no closing brace": "{" + good,
        "byte order mark": "\ufeff{" + good + "}",
        "unknown members": "{" + good + ',"more":{"a":[1,2]},"less":null}',
        "code twice": "{" + good + ',"code":CODE}',
        "names in other letters": "{" + good.replace('"opaque"', '"OPAQUE "').replace("OPAQUE ", "Opaque") + "}",
        "an escape": "{" + good.replace('"JAVA"', '"\\u004aAVA"') + "}",
        "a type": '{"@type":"java.lang.String",' + good + "}",
        "a list around": "[{" + good + "}]",
        "NaN": "{" + good.replace("409", "NaN") + "}",
        "hex": "{" + good.replace("409", "0x199") + "}",
        "plus": "{" + good.replace("409", "+409") + "}",
        "a leading zero": "{" + good.replace("409", "0409") + "}",
        "an exponent": "{" + good.replace("409", "4e2") + "}",
        "a decimal": "{" + good.replace("409", "409.0") + "}",
        "a control character": "{" + good.replace("JAVA", "JA\x01VA") + "}",
    }.items():
        yield f"JSON: {name}", header(text), None
    yield (
        "JSON: no UTF-8",
        lambda opaque: frame(JSON, json_header(code, opaque, fields).replace(b"JAVA", b"\xff\xfe")),
        None,
    )
    for member, values in {
        "code": (str(code), float(code), "", "abc", None, 2**31, 2**40, True, [], {}),
        "flag": (1, 2, 3, 4, 8, -1, "2", "abc", None, True),
        "version": ("409", "", "x", None, 0, -1, 70_000, 2**31, 409.9, True, []),
        "language": ("XX", "", "java", "GO", None, 5, "5", 99, -1, True, [], {}),
        "remark": ("hello", "", None, 5, True, {}, []),
        "serializeTypeCurrentRPC": ("ROCKETMQ", "JSON", "XX", 1, None),
        "body": ("aGVsbG8=", "", 5, None),
        "extFields": (None, [], {}, "", "x", 5, True, [1]),
        "customHeader": ({}, None, "x"),
        "opaque": (),
    }.items():
        for value in values:
            yield f"{member} {value!r}", with_members(**{member: value}), None
        if member in ("code", "flag", "version", "language", "extFields"):
            yield f"{member} missing", without(member), None
    yield "opaque missing", without("opaque"), 0
    for opaque in (-5, 0, 2**31 - 1, -(2**31)):
        yield f"opaque {opaque}", with_members(opaque=opaque), opaque
    yield "opaque '77'", with_members(opaque="77"), 77
    yield "opaque null", with_members(opaque=None), 0
    yield "opaque 2^31", with_members(opaque=2**31), -(2**31)
    yield "opaque 'abc'", with_members(opaque="abc"), 0
    for name, value in {
        "object": {"a": 1},
        "list": ["a"],
        "number": 1,
        "null": None,
        "empty": "",
        "true": True,
        "big": "x" * 40_000,
        "unicode": "\u00fc\U0001f600",
        "a zero byte": "a\0b",
    }.items():
        yield f"ext field more: {name}", with_members(extFields={**fields, "more": value}), None
        yield f"ext field topic: {name}", with_members(extFields={**fields, "topic": value}), None


def _binary_headers(code: int, fields: dict[str, str]) -> Iterator[Raw]:
    def binary(opaque: int) -> bytes:
        return binary_header(code, opaque, fields)

    def ext(block: bytes, size: int | None = None) -> Callable[[int], bytes]:
        def raw(opaque: int) -> bytes:
            plain = binary_header(code, opaque, None)[:-4]
            return frame(ROCKETMQ, plain + struct.pack(">i", len(block) if size is None else size) + block)

        return raw

    def patched(at: int, raw: bytes) -> Callable[[int], bytes]:
        def make(opaque: int) -> bytes:
            whole = binary(opaque)
            return frame(ROCKETMQ, whole[:at] + raw + whole[at + len(raw) :])

        return make

    pairs = binary_header(code, 0, fields)[21:]
    yield "binary", lambda opaque: frame(ROCKETMQ, binary(opaque)), None
    yield "binary, bytes behind", lambda opaque: frame(ROCKETMQ, binary(opaque) + b"\0\1\2"), None
    for cut in (1, 5, 20, 21, 22, 25):
        yield f"binary, cut at {cut}", lambda opaque, cut=cut: frame(ROCKETMQ, binary(opaque)[:cut]), None  # type: ignore[misc]
    yield "binary, cut before the end", lambda opaque: frame(ROCKETMQ, binary(opaque)[:-1]), None
    for language in (5, 12, 13, 99, 255):
        yield f"binary language {language}", patched(2, bytes([language])), None
    for version in (0, -1, 32_767):
        yield f"binary version {version}", patched(3, struct.pack(">h", version)), None
    for flag in (1, 2, 4, -1 & ~3):
        yield f"binary flag {flag}", patched(9, struct.pack(">i", flag)), None
    for size in (-1, 1, 5, 2**31 - 1, -(2**31)):
        yield f"binary remark of {size}", patched(13, struct.pack(">i", size)), None
    yield (
        "binary with a remark",
        lambda opaque: frame(ROCKETMQ, binary_header(code, opaque, fields, remark="hüllo".encode())),
        None,
    )
    yield "binary code -1", patched(0, struct.pack(">h", -1)), None
    yield "binary, no ext fields", ext(b""), None
    for size in (-1, 2**31 - 1, len(pairs) + 1, len(pairs) - 1):
        yield f"binary ext block of {size}, not {len(pairs)}", ext(pairs, size), None
    for name, block in {
        "an empty key": struct.pack(">hi", 0, 1) + b"x",
        "an empty value": struct.pack(">h", 4) + b"more" + struct.pack(">i", 0),
        "an empty topic": struct.pack(">h", 5) + b"topic" + struct.pack(">i", 0),
        "a key of -1": struct.pack(">h", -1) + struct.pack(">i", 1) + b"x",
        "a value of -1": struct.pack(">h", 4) + b"more" + struct.pack(">i", -1),
        "a value that is too long": struct.pack(">h", 4) + b"more" + struct.pack(">i", 50) + b"x",
        "a key that is too long": struct.pack(">h", 400) + b"more",
        "no UTF-8": struct.pack(">h", 4) + b"more" + struct.pack(">i", 2) + b"\xff\xfe",
        "a key that is no UTF-8": struct.pack(">h", 2) + b"\xff\xfe" + struct.pack(">i", 2) + b"xx",
        "a key twice": struct.pack(">h", 5) + b"topic" + struct.pack(">i", 3) + b"xxx",
    }.items():
        yield f"binary ext field: {name}", ext(pairs + block), None
        yield f"binary ext field first: {name}", ext(block + pairs), None
