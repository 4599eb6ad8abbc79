"""Frames of one repeated part, in each place where a peer's text is parsed.

Work is bounded by calls of Python functions, memory by the size of the frame.
"""

import contextlib
import struct
import sys
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from rmqlab.remoting.bodies.heartbeat import HeartbeatData
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.bodies.queue import LockBatchRequestBody
from rmqlab.remoting.bodies.registration import decode_registration
from rmqlab.remoting.bodies.topic import DataVersion
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.frame import JSON, ROCKETMQ, Frame, RemoteProtocolError
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.offset import GetMaxOffsetRequestHeader
from rmqlab.remoting.message import parse_properties

SIZE = 2**16
PEAK = 40
"""Bytes of memory for each byte of a frame. `re` took 128 for each space."""
CALLS = 400
CALLS_PER_VALUE = 12
PARTS = [
    " ",
    "\t",
    "\n",
    "\\n",
    "\\u0041",
    "\\ud800",
    "\\q",
    "7",
    '"',
    "''",
    '"",',
    "[",
    "{",
    "[]",
    "/*",
    "/**/",
    "//\n",
]
PARTS += ["/", ",", "a", ".", "-", "\x00", "\x01", "\x02", "=", "\\\n", "\u20ac", "\udcff"]

Reader = Callable[[bytes], object]


def header(form: bytes) -> Reader:
    def read(text: bytes) -> None:
        command = decode_command(Frame(JSON, form % text))
        with contextlib.suppress(HeaderError):
            command.header(GetMaxOffsetRequestHeader)
        with contextlib.suppress(HeaderError):
            command.ext_fields  # noqa: B018  # parses them

    return read


def binary(block: bytes) -> None:
    fixed = struct.pack(">hBhiiii", 30, 0, 401, 1, 0, 0, len(block))
    decode_command(Frame(ROCKETMQ, fixed + block)).header(GetMaxOffsetRequestHeader)


def binary_value(text: bytes) -> None:
    binary(struct.pack(">h1si", 1, b"k", len(text)) + text)


def compressed(*blocks: bytes) -> None:
    version, line, servers = (struct.pack(">i", len(block)) + block for block in blocks)
    raw = zlib.compress(version + struct.pack(">i", 1) + line + servers, 1)
    decode_registration(raw, version=409, compressed=True)


READERS: dict[str, Reader] = {
    "header": header(b"%b"),
    "member of a header": header(b'{"code":30,"x":%b}'),
    "remark": header(b'{"code":30,"remark":"%b"}'),
    "remark in the dialect": header(b"{code:30,remark:'%b'}"),
    "code": header(b'{"code":%b}'),
    "ext fields": header(b'{"code":30,"extFields":{%b}}'),
    "ext field": header(b'{"code":30,"extFields":{"topic":"%b","queueId":"1.0"}}'),
    "number in ext fields": header(b'{"code":30,"extFields":{"topic":"t","queueId":%b}}'),
    "name of an ext field": header(b'{"code":30,"extFields":{"%b":1,"topic":2}}'),
    "binary ext fields": binary,
    "binary ext field": binary_value,
    "version in a registration": lambda text: compressed(text, b"T 1 1 6 SINGLE_TAG", b"[]"),
    "topic in a registration": lambda text: compressed(b"{}", text, b"[]"),
    "filter servers in a registration": lambda text: compressed(b"{}", b"T 1 1 6 SINGLE_TAG", b"[%b]" % text),
    "compressed registration": lambda text: decode_registration(text, version=409, compressed=True),
    "registration": lambda text: decode_registration(b"{x:%b}" % text, version=409, compressed=False),
    "properties": lambda text: parse_properties(text.decode("utf-8", "replace")),
}
for kind in (HeartbeatData, LockBatchRequestBody, DataVersion, ConsumerOffsets):
    for form in (b"%b", b'{"x":%b}', b'{"x":"%b"}', b"{x:'%b'}", b"{x:'%b'", b'{"%b":1}', b'{"x":[%b]}'):
        READERS[f"{kind.__name__}: {form.decode()}"] = lambda text, kind=kind, form=form: kind.decode(form % text)  # type: ignore[misc]


def work_of(read: Reader, text: bytes) -> tuple[int, int]:
    """Return calls of Python functions, and bytes of memory."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    tracemalloc.start()
    sys.setprofile(count)
    try:
        read(text)
    except (BodyError, HeaderError, RemoteProtocolError, ValueError):
        pass
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return calls, peak


@pytest.mark.parametrize("name", READERS)
def test_a_frame_of_one_repeated_part_needs_bounded_work(name: str) -> None:
    read = READERS[name]
    read_once = b"1"
    with contextlib.suppress(BodyError, HeaderError, RemoteProtocolError):
        read(read_once)  # makes decoders, which later calls use again
    for part in PARTS:
        unit = part.encode("utf-8", "surrogateescape")
        text = unit * (SIZE // len(unit))
        calls, peak = work_of(read, text)
        values = sum(map(text.count, (b",", b"[", b"{", b"/", b"\x00")))
        assert calls <= CALLS + CALLS_PER_VALUE * values, ascii(part)
        assert peak <= PEAK * SIZE, ascii(part)
