"""Framing and headers of a live server (remoting-and-nameserver, section 7)."""

import contextlib
import json
import struct

import hypothesis
import pytest
from hypothesis import strategies as st

from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.command import request
from rmqlab.remoting.frame import JSON, MAX_FRAME, ROCKETMQ, Frame, FrameDecoder, RemoteProtocolError
from tests.runtime.live_server import (
    binary_frame,
    binary_header,
    field,
    json_frame,
    serving,
)


async def test_the_largest_frame_is_served() -> None:
    """remoting#1: length 16777212."""
    async with serving() as running:
        peer = await running.connect()
        header = b'{"code":34}'
        body_size = MAX_FRAME - 8 - len(header)
        await peer.stream.send_all(struct.pack(">iI", MAX_FRAME - 4, len(header)) + header + bytes(body_size))
        assert (await peer.next()).code == 0


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(struct.pack(">i", MAX_FRAME - 3), id="one byte too long (remoting#1)"),
        pytest.param(struct.pack(">i", 3), id="shorter than its own header field (remoting#2)"),
        pytest.param(struct.pack(">i", -1), id="negative (remoting#2)"),
        pytest.param(struct.pack(">iI", 10, 7) + bytes(6), id="header longer than the frame (remoting#2)"),
        pytest.param(struct.pack(">iI", 6, 2 << 24 | 2) + b"{}", id="serialize type 2 (remoting#2)"),
        pytest.param(json_frame("null"), id="a JSON null for a header (remoting#2)"),
        pytest.param(json_frame(""), id="an empty JSON header (remoting#2)"),
        pytest.param(json_frame("[1]"), id="a JSON list for a header (remoting#2)"),
        pytest.param(json_frame('{"code":'), id="half a JSON header (remoting#2)"),
        pytest.param(json_frame('{"code":"x"}'), id="a code that is no number (remoting#2)"),
        pytest.param(json_frame('{"code":2147483648}'), id="a code of more than 32 bits (remoting#2)"),
        pytest.param(json_frame('{"code":34,"version":1e999}'), id="a version of more than 32 bits (remoting#2)"),
        pytest.param(struct.pack(">iI", 7, 3) + b"\xff\xfe\xfd", id="a JSON header that is no text (remoting#2)"),
        pytest.param(json_frame('{"code":34,"a":' + "[" * 90_000), id="lists in lists without end (remoting#2)"),
        pytest.param(json_frame('{"extFields":' + '{"a":' * 20_000), id="objects in objects without end (remoting#2)"),
        pytest.param(binary_frame(b""), id="an empty binary header (remoting#2)"),
        pytest.param(binary_frame(binary_header()[:-1]), id="a binary header cut short (remoting#2)"),
        pytest.param(binary_frame(binary_header(fields=b"\0")), id="a binary key cut short (remoting#2)"),
        pytest.param(binary_frame(binary_header(fields=b"\0\x09ab")), id="a binary key over the end (remoting#2)"),
        pytest.param(
            binary_frame(binary_header(fields=b"\0\1a\0\0\1\0")), id="a binary value over the end (remoting#2)"
        ),
        pytest.param(binary_frame(binary_header(fields=b"\0\1a\xff\xff\xff\xff")), id="a negative size (remoting#2)"),
        pytest.param(
            binary_frame(binary_header()[:13] + b"\xff" * 4 + bytes(4)), id="a remark of a negative size (remoting#2)"
        ),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00", id="a TLS handshake (remoting#12)"),
    ],
)
async def test_an_invalid_frame_closes_the_connection_without_a_reply(hostile: bytes) -> None:
    async with serving() as running:
        peer = await running.connect()
        await peer.stream.send_all(hostile)
        assert await peer.wait_closed() == b""
        other = await running.connect()
        await other.send(request(10, {}))
        assert (await other.next()).code == 0


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        (struct.pack(">i", -1), f"length -1: expected 4 to {MAX_FRAME - 4}"),
        (
            struct.pack(">iI", 10, 7),
            f"header size 7, serialize type 0: expected at most {MAX_FRAME - 4}, a header that",
        ),
    ],
)
def test_an_invalid_frame_is_reported_with_what_was_expected(hostile: bytes, said: str) -> None:
    with pytest.raises(RemoteProtocolError, match=said):
        FrameDecoder().feed(hostile)


@hypothesis.given(st.sampled_from([JSON, ROCKETMQ]), st.binary(max_size=80), st.binary(max_size=9))
def test_any_header_is_a_command_or_a_protocol_error(serialize_type: int, header: bytes, tail: bytes) -> None:
    """remoting#2: no other exception may be raised: it would end the process."""
    for raw in (header, binary_header(fields=header) + tail, b'{"code":34,"extFields":' + header):
        with contextlib.suppress(RemoteProtocolError):
            decode_command(Frame(serialize_type, raw))


async def test_each_request_is_answered_in_its_own_codec() -> None:
    """remoting#3."""
    async with serving() as running:
        peer = await running.connect()
        for serialize_type in (JSON, ROCKETMQ, JSON):
            await peer.send(request(10, {"topic": "t"}, serialize_type=serialize_type))
            reply = await peer.next()
            assert (reply.serialize_type, reply.ext_fields) == (serialize_type, {"topic": "t"})
            await peer.send(request(9999, serialize_type=serialize_type))
            assert (await peer.next()).serialize_type == serialize_type


@pytest.mark.parametrize("opaque", [0, 1, -1, 2**31 - 1, -(2**31)])
async def test_a_reply_has_the_requests_opaque_flag_one_and_nothing_that_is_null(opaque: int) -> None:
    """remoting#4, read from the bytes."""
    async with serving() as running:
        peer = await running.connect()
        await peer.stream.send_all(json_frame({"code": 10, "opaque": opaque, "flag": 0, "extFields": {"topic": "t"}}))
        raw = await peer.stream.receive_some()
        length, header_size = struct.unpack(">iI", raw[:8])
        assert (length, header_size) == (len(raw) - 4, len(raw) - 8)
        header = json.loads(raw[8:])
        assert header == {
            "code": 0,
            "extFields": {"topic": "t"},
            "flag": 1,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 409,
        }


async def test_an_empty_header_class_adds_empty_ext_fields_and_no_class_adds_none() -> None:
    """remoting#4."""
    async with serving() as running:
        peer = await running.connect()
        await peer.send(request(34))
        assert json.loads((await peer.stream.receive_some())[8:])["extFields"] == {}
        await peer.send(request(9999))
        assert "extFields" not in json.loads((await peer.stream.receive_some())[8:])


async def test_values_of_any_json_type_are_read_as_text_and_answered_as_text() -> None:
    """remoting#5, #6."""
    async with serving() as running:
        peer = await running.connect()
        fields = {"topic": 7, "queueId": 3, "isNew": True}
        await peer.stream.send_all(json_frame({"code": 10, "extFields": fields}))
        raw = await peer.stream.receive_some()
        assert json.loads(raw[8:])["extFields"] == {"topic": "7", "queueId": "3", "isNew": "true"}


@pytest.mark.parametrize(
    "header",
    [
        '{"code":34}',
        '{"code":34,"language":"COBOL"}',
        '{"code":34,"language":77}',
        '{"code":34.0,"flag":null,"version":"","remark":[5],}',
        '{"code":34,"version":409.9,/* hello */"remark":true}',
        '{"code":"34","opaque":"5","flag":"0","version":"401"}',
        "{code:34,'opaque':5}",
        '{"code":34}\n',
        '{"code":34,"someFutureMember":{"a":[1]}}',
        '{"code":34,"remark":null,"extFields":null,"language":null}',
    ],
)
async def test_a_header_is_served_whatever_it_leaves_out_or_adds(header: str) -> None:
    """remoting#7, and the habits of section 1.4."""
    async with serving() as running:
        peer = await running.connect()
        await peer.stream.send_all(json_frame(header))
        assert (await peer.next()).code == 0


async def test_a_header_in_another_encoding_than_utf8_is_served() -> None:
    """Java reads invalid text with replacement characters.

    Native clients write remarks in their own encoding.
    """
    async with serving() as running:
        peer = await running.connect()
        raw = '{"code":34,"remark":"中"}'.encode("gbk")
        await peer.stream.send_all(struct.pack(">iI", 4 + len(raw), len(raw)) + raw)
        assert (await peer.next()).code == 0
        raw = '{"code":10,"extFields":{"topic":"中"}}'.encode("gbk")
        await peer.stream.send_all(struct.pack(">iI", 4 + len(raw), len(raw)) + raw)
        assert "\ufffd" in (await peer.next()).ext_fields["topic"]
        for topic in (b"\xff", b"a", b"b", b"c"):
            fields = field("键".encode("gbk"), b"v") + field(b"topic", topic)
            await peer.stream.send_all(binary_frame(binary_header(code=10, fields=fields, remark=b"\xff")))
            assert (await peer.next()).ext_fields["topic"] == topic.decode("utf-8", "replace")


async def test_an_unknown_language_byte_is_served() -> None:
    """remoting#7."""
    async with serving() as running:
        peer = await running.connect()
        await peer.stream.send_all(binary_frame(binary_header(code=34, language=200)))
        assert (await peer.next()).code == 0


async def test_a_binary_header_is_21_bytes_and_what_varies_and_empty_values_are_null() -> None:
    """remoting#8."""
    async with serving() as running:
        peer = await running.connect()
        fields = field(b"topic", b"") + field(b"queueId", b"3") + field(b"", b"x")
        await peer.stream.send_all(binary_frame(binary_header(opaque=0x3F2, fields=fields, remark=b"why")))
        raw = bytes(await peer.stream.receive_some())
        expected = field(b"queueId", b"3")
        assert len(raw) == 8 + 21 + len(expected)
        assert raw[8:] == bytes.fromhex("0000 00 0199 000003f2 00000001 00000000") + struct.pack(">i", 14) + expected
