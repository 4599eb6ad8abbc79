"""Headers with very many ext fields: one of 16 MiB held up a server for seconds."""

import json
import struct
from collections.abc import Callable

import pytest

from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.command import Command
from rmqlab.remoting.frame import (
    JSON,
    MAX_RECEIVED_HEADER,
    ROCKETMQ,
    Frame,
    FrameDecoder,
    RemoteProtocolError,
    encode_frame,
)
from rmqlab.remoting.header import MAX_FIELDS, HeaderError, fields_from_json, java_long, java_number


@pytest.mark.parametrize("codec", [JSON, ROCKETMQ])
def test_as_many_as_the_limit_are_read(codec: int) -> None:
    fields = {f"name {number}": '",":"' for number in range(MAX_FIELDS)}
    (frame,) = FrameDecoder().feed(encode_command(Command(10, serialize_type=codec, raw_fields=fields)))
    assert decode_command(frame).ext_fields == fields


@pytest.mark.parametrize("field", [struct.pack(">hi", 0, 0), struct.pack(">hci", 1, b"k", 1) + b"v"])
def test_more_in_the_binary_codec_close_the_connection(field: bytes) -> None:
    block = field * (MAX_FIELDS + 1)
    header = struct.pack(">hBhiiii", 10, 0, 401, 1, 0, 0, len(block)) + block
    with pytest.raises(RemoteProtocolError, match="more than 20000 ext fields"):
        decode_command(Frame(ROCKETMQ, header))


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({f"name {number}\\": "v" for number in range(MAX_FIELDS + 1)}),
        json.dumps({"items": ["text"] * 2 * MAX_FIELDS}),
        '{"name" : 1' + ', "name" : 1' * 2 * MAX_FIELDS + "}",
        '"text"' * 4 * MAX_FIELDS,
    ],
)
def test_more_in_json_are_not_parsed(raw: str) -> None:
    with pytest.raises(HeaderError, match="more than 20000 ext fields"):
        fields_from_json(raw.encode())


def test_one_long_value_is_one_field() -> None:
    value = '"a":1,' * 100_000
    assert fields_from_json(json.dumps({"properties": value}).encode()) == {"properties": value}


@pytest.mark.parametrize("codec", [JSON, ROCKETMQ])
def test_long_headers_are_refused_before_they_arrive(codec: int) -> None:
    prefix = struct.pack(">iI", 4 + MAX_RECEIVED_HEADER + 1, codec << 24 | MAX_RECEIVED_HEADER + 1)
    with pytest.raises(RemoteProtocolError, match=f"header of {MAX_RECEIVED_HEADER + 1} bytes: expected at most"):
        FrameDecoder().feed(prefix)
    (frame,) = FrameDecoder().feed(encode_frame(Frame(codec, bytes(MAX_RECEIVED_HEADER))))
    assert len(frame.header) == MAX_RECEIVED_HEADER


def test_the_longest_properties_fit() -> None:
    """A broker has to read those up to 131,072 characters, to reject longer ones."""
    header = {"code": 310, "opaque": 1, "extFields": {"i": "\x01" * 131_072}}
    raw = json.dumps(header).encode()
    (frame,) = FrameDecoder().feed(encode_frame(Frame(JSON, raw)))
    assert decode_command(frame).ext_fields == header["extFields"]


@pytest.mark.parametrize("read", [java_number, java_long])
def test_errors_have_the_beginning_of_a_long_text(read: Callable[[str], int]) -> None:
    with pytest.raises(ValueError, match=r"^not a number: '9{80}'$"):
        read("9" * 1_000_000)
