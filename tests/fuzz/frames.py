"""Requests of every code with invalid fields, in both header codecs.

Fields are missing, doubled, huge or of another type. The frames are put together here, without the code under test:
what it would never write is the point.
"""

import importlib
import json
import pkgutil
import struct
from collections.abc import Mapping
from typing import Any

import msgspec

import rmqlab.remoting.bodies
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.header import Header
from rmqlab.runtime.net.dispatch import Route
from tests.fuzz.odd import Odd

JSON, BINARY = 0, 1
Fields = list[tuple[str, Any]]

BODIES: list[type[msgspec.Struct]] = sorted(
    {
        kind
        for module in pkgutil.iter_modules(rmqlab.remoting.bodies.__path__)
        for kind in vars(importlib.import_module(f"rmqlab.remoting.bodies.{module.name}")).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    },
    key=lambda kind: kind.__name__,
)
SETTING_CODES = {RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG}


def frame(serialize_type: int, header: bytes, body: bytes) -> bytes:
    """One frame as it should be."""
    return struct.pack(">iI", 4 + len(header) + len(body), serialize_type << 24 | len(header)) + header + body


def json_header(odd: Odd, code: int, flag: int, opaque: int, fields: Fields) -> bytes:
    """A JSON header; doubled keys stay doubled."""
    pairs = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in fields)
    head = {"code": code, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 401}
    if odd.often(0.05):
        head[odd.choice(list(head))] = odd.choice((None, "", -1, 2**31, 2**63, "x", 1.5, []))
    if odd.often(0.05):
        head |= {"remark": odd.text()}
    text = json.dumps(head)[:-1] + (f',"extFields":{{{pairs}}}' if fields or odd.often(0.5) else "") + "}"
    return text.encode("utf-8", "surrogatepass")


def binary_header(odd: Odd, code: int, flag: int, opaque: int, fields: Fields) -> bytes:
    """A header in RocketMQ's binary form (remoting section 1.5)."""
    remark = odd.text().encode("utf-8", "surrogatepass") if odd.often(0.05) else b""
    ext = b"".join(_binary_pair(name, value) for name, value in fields)
    head = struct.pack(">hbhii", (code + 2**15) % 2**16 - 2**15, odd.choice((0, 0, 0, 7, -1)), 401, opaque, flag)
    return head + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(ext)) + ext


def _binary_pair(name: str, value: object) -> bytes:
    key = name.encode("utf-8", "surrogatepass")[: 2**15 - 1]
    text = (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogatepass")
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(text)) + text


def encode(odd: Odd, code: int, opaque: int, fields: Fields, body: bytes, *, flag: int = 0) -> bytes:
    """A frame in one of the codecs, seldom a damaged one."""
    serialize_type = odd.choice((JSON, BINARY))
    make = json_header if serialize_type == JSON else binary_header
    header = make(odd, code, flag, opaque, fields)
    return frame(serialize_type, odd.damaged(header) if odd.often(0.01) else header, body)


def fields_for(odd: Odd, kind: type[Header] | None) -> Fields:
    """Fields as a header class wants them, with up to three of them spoiled."""
    if kind is None:
        return [(odd.text(), odd.text()) for _ in range(odd.randrange(2))]
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    fields: Fields = [
        (field.encode_name, _as_text(odd.plausible(field.encode_name, field.type))) for field in info.fields
    ]
    for _ in range(odd.choice((0, 1, 1, 2, 3))):
        if not fields:
            break
        at = odd.randrange(len(fields))
        name = fields[at][0]
        fields[at : at + 1] = odd.choice(
            (
                [],
                [(name, odd.text())],
                [(name, odd.choice((None, 1, -1, True, 1.5, 2**63, {}, [])))],
                [fields[at], (name, odd.text())],
                [fields[at], (odd.text(), odd.text())],
            )
        )
    return fields


def body_for(odd: Odd, code: int) -> bytes:
    """A body that may be what the request is about."""
    if code in SETTING_CODES and odd.often(0.7):
        return _settings(odd).encode("utf-8", "surrogatepass")
    match odd.randrange(4):
        case 0:
            return b""
        case 1:
            return odd.binary()
        case 2:
            return odd.text().encode("utf-8", "surrogatepass")
    return odd.json_body(odd.choice(BODIES))


SETTINGS = (
    *("flushConsumerOffsetInterval", "fileReservedTime", "haHousekeepingInterval", "storePathCommitLog", "deleteWhen"),
    *("brokerPermission", "configStorePath", "config_store_path", "kvConfigPath", "rocketmqHome", "maxMessageSize"),
    *("waitTimeMillsInSendQueue", "messageDelayLevel", "scanPeriod", "listenPort", "brokerIP1", "x\\n y", "brokerRole"),
)


def _settings(odd: Odd) -> str:
    return "\n".join(f"{odd.choice(SETTINGS)}={odd.text()}" for _ in range(odd.randrange(1, 4)))


def request(odd: Odd, table: Mapping[int, Route[Any]], opaque: int) -> bytes:
    """One request: of a code that is served, mostly."""
    code = odd.choice(list(table)) if odd.often(0.95) else odd.choice((*RequestCode, -1, 0, 9, 32767, 70000, 2**31 - 1))
    kind = table[code].header_type if code in table else None
    return encode(
        odd, code, opaque, fields_for(odd, kind), body_for(odd, code), flag=odd.choice((0, 0, 0, 0, 2, 1, 3, -1))
    )


def garbage(odd: Odd) -> bytes:
    """Bytes that are not a frame, or only the start of one."""
    match odd.randrange(4):
        case 0:
            return odd.choice(
                (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00")
            )
        case 1:
            return odd.binary(2_000)
        case 2:
            return struct.pack(">iI", odd.choice((4, 100, 2**24, -1, 2**31 - 1, 0)), odd.getrandbits(32)) + odd.binary()
    return odd.damaged(frame(odd.choice((0, 1, 2)), odd.binary(), odd.binary()))


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
