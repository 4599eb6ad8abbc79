import json
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqlab.remoting.codec import ReplyHead, decode_command, encode_command, encode_reply_head
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.foreignprotocol import MAX_HOSTS, OncePerHost
from rmqlab.remoting.frame import (
    JSON,
    MAX_HEADER,
    ROCKETMQ,
    Frame,
    FrameDecoder,
    HeaderTooLargeError,
    RemoteProtocolError,
)
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.send import SendMessageRequestHeader
from rmqlab.runtime.net.dispatch import Reply, Request

plain = st.text(alphabet="0123456789ABCDEF,", min_size=1, max_size=300)
texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=40)


@given(
    st.sampled_from([JSON, ROCKETMQ]),
    st.integers(0, 400),
    st.dictionaries(texts, texts),
    st.lists(plain, max_size=4),
    st.none() | texts,
    st.integers(0, 400),
)
def test_a_prepared_reply_head_equals_a_newly_encoded_one(
    serialize_type: int, code: int, constants: dict[str, str], values: list[str], remark: str | None, body_size: int
) -> None:
    names = [f"value {number} at 100%" for number in range(len(values))]
    asked = request(10, {}, serialize_type=serialize_type)
    asked.opaque = 77
    head = ReplyHead(constants, names, remark).encode(asked, code, [value.encode() for value in values], body_size)
    fields = {**constants, **dict(zip(names, values, strict=True))}
    anew = encode_reply_head(asked, code, fields, remark, body_size)
    if serialize_type == ROCKETMQ:
        assert head == anew
    body = b"b" * body_size
    laid_out, made = (decode_command(frame) for raw in (head, anew) for frame in FrameDecoder().feed(raw + body))
    assert (laid_out.ext_fields, laid_out.remark, laid_out.body) == (made.ext_fields, made.remark, body)
    assert (laid_out.code, laid_out.opaque, laid_out.flag, laid_out.version) == (code, 77, 1, made.version)


def decoded(raw: bytes) -> Command:
    [frame] = FrameDecoder(max_frame=2**26).feed(raw)
    return decode_command(frame)


def replied(code: int, fields: dict[str, str], remark: str | None) -> Command:
    """Ask in the binary codec, and read the reply."""
    sent: list[bytes] = []

    class Peer:
        peer = "127.0.0.1:1"

        def write(self, *buffers: bytes) -> None:
            sent.extend(buffers)

    asked = request(307, {}, serialize_type=ROCKETMQ)
    asked.opaque = 77
    Request(asked, Peer()).reply(Reply(code, fields, b"body", remark))
    return decoded(b"".join(sent))


@given(st.integers(-(2**31), 2**31 - 1), st.dictionaries(texts, texts), st.none() | st.text(max_size=10))
def test_any_code_goes_out_in_binary_as_java_writes_it(code: int, fields: dict[str, str], remark: str | None) -> None:
    """issue 12.5: writeShort keeps the low 16 bits."""
    reply = replied(code, fields, remark)
    assert reply.code.to_bytes(4, "big", signed=True)[2:] == code.to_bytes(4, "big", signed=True)[2:]
    assert (reply.opaque, reply.flag, reply.serialize_type, reply.body) == (77, 1, ROCKETMQ, b"body")


@given(st.integers(-(2**31), 2**31 - 1))
def test_any_version_goes_out_in_binary(version: int) -> None:
    command = decoded(encode_command(Command(10, version=version, serialize_type=ROCKETMQ)))
    assert (command.version - version) % 2**16 == 0


def test_a_prepared_reply_head_accepts_any_code() -> None:
    asked = request(10, {}, serialize_type=ROCKETMQ)
    assert decoded(ReplyHead({}, ["a"]).encode(asked, 70_000, [b"1"])).code == 70_000 - 65_536


def test_a_name_too_long_for_the_binary_codec_goes_out_as_json() -> None:
    reply = replied(0, {"k" * 32_768: "v"}, None)
    assert (reply.serialize_type, reply.ext_fields) == (JSON, {"k" * 32_768: "v"})
    assert replied(0, {"k" * 32_767: "v"}, None).serialize_type == ROCKETMQ


def test_the_size_of_a_name_in_the_binary_codec_is_a_signed_number() -> None:
    """RocketMQSerializable.readStr fails for a larger one, which is negative."""
    longest = encode_command(Command(10, serialize_type=ROCKETMQ, raw_fields={"k" * 32_767: "v"}))
    assert decoded(longest).ext_fields == {"k" * 32_767: "v"}
    (size,) = struct.unpack_from(">i", longest, 8 + 17)
    header = longest[8 : 8 + 17] + struct.pack(">i", size + 1) + b"\x80\x00k" + longest[8 + 17 + 4 + 2 :]
    with pytest.raises(RemoteProtocolError, match="a name of 32768 bytes: expected at most 32767"):
        decode_command(Frame(ROCKETMQ, header))


def test_a_header_larger_than_its_size_field_is_never_sent_as_it_is() -> None:
    asked = request(307, {})
    for serialize_type in (JSON, ROCKETMQ):
        asked.serialize_type = serialize_type
        with pytest.raises(HeaderTooLargeError, match=f"at most {MAX_HEADER}"):
            encode_reply_head(asked, 0, None, "x" * MAX_HEADER, 0)
    assert replied(0, {}, "x" * MAX_HEADER).code == 1


def test_half_a_surrogate_pair_goes_out_as_a_question_mark() -> None:
    assert replied(0, {"a": "\ud800"}, "\udfff").ext_fields == {"a": "?"}


ODD_FIELDS = [
    b"[1]", b'"x"', b"5", b"1e999999", b'{"a":1e999999}', b'{"a":' + b"1" * 5_000 + b"}", b'{"queueId":1e999999}',
    b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", b'{"a":"\xff"}', b'{"a":"\\ud800"}', b'{"\xff":"\xff"}', b"{1:2}",
    b'{{"a":1}:1}', b"{a:" + b"[" * 5_000, b'{"a":"\\q\\u00"}', b'{"a":{"$ref":"$"}}', b"[[[]]]",
]  # fmt: skip


@pytest.mark.parametrize("fields", ODD_FIELDS, ids=lambda fields: repr(fields[:20]))
@pytest.mark.parametrize("code", [b"10", b"null"])
def test_odd_ext_fields_are_read_or_refused_as_such(fields: bytes, code: bytes) -> None:
    """Only these errors: handlers, access control and waiting clients read the fields."""
    try:
        command = decode_command(Frame(JSON, b'{"code":%s,"extFields":%s}' % (code, fields)))
    except RemoteProtocolError:
        return
    for read in (lambda: command.header(SendMessageRequestHeader), lambda: command.ext_fields):
        try:
            read()
        except HeaderError as exc:
            assert len(str(exc)) < 300  # noqa: PT017 - either outcome will do


ODD_HEADERS = [
    b"{code:1,remark:{{a:1}:2}}", b'{"code":1,"remark":{"a":1e999}}', b"{code:%s}" % (b"9" * 5_000), b'{"code":1e999999}',
    b"[" * 100_000, b"{a:" * 100_000, b'{"a":' * 100_000, b"{code:1,{a:1}:2}", b'{"code":"\\ud800"}', b"{a:\x00}", b"\x00",
    b"{" + b"a:1," * 100_000 + b"code:1}", b"", b"@", b'{"code":1,"remark":"' + b"\x00" * 100 + b'"}',
]  # fmt: skip


@pytest.mark.parametrize("header", ODD_HEADERS, ids=lambda header: repr(header[:20]))
def test_odd_headers_are_read_or_refused(header: bytes) -> None:
    for serialize_type in (JSON, ROCKETMQ):
        try:
            decode_command(Frame(serialize_type, header))
        except RemoteProtocolError as exc:
            assert len(str(exc)) < 300  # noqa: PT017 - either outcome will do


@given(
    st.binary(max_size=80) | st.builds(lambda rest: json.dumps(rest).encode(), st.dictionaries(texts, st.integers()))
)
@example(b'{"extFields":0}')
def test_any_header_is_read_or_refused(header: bytes) -> None:
    for serialize_type in (JSON, ROCKETMQ):
        try:
            command = decode_command(Frame(serialize_type, header))
            _ = command.ext_fields
        except (RemoteProtocolError, HeaderError):
            continue
        assert decoded(encode_command(command)).code == command.code


@pytest.mark.parametrize(
    ("arrives", "named"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "a gRPC client of RocketMQ 5.x needs a proxy"),
        (b"PRI ", "a gRPC client of RocketMQ 5.x needs a proxy"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP, but this is a RocketMQ remoting port"),
        (b"POST /x HTTP/1.1\r\n", "HTTP, but"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS handshake"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLS alert"),
        (b"HTTP/1.1 400 Bad Request\r\n", "a web server listens at this address"),
        (b"SSH-2.0-OpenSSH_9.2", "SSH"),
    ],
)
def test_a_foreign_protocol_is_named(arrives: bytes, named: str) -> None:
    """issue 12.15"""
    whole, piecemeal = FrameDecoder(), FrameDecoder()
    with pytest.raises(RemoteProtocolError, match=named):
        whole.feed(arrives)
    for at in range(3):
        assert piecemeal.feed(arrives[at : at + 1]) == []
    with pytest.raises(RemoteProtocolError, match=named):
        piecemeal.feed(arrives[3:4])


def test_an_oversized_frame_is_reported_with_its_length() -> None:
    with pytest.raises(RemoteProtocolError, match="length 2147483647"):
        FrameDecoder().feed(b"\x7f\xff\xff\xff")


def test_hosts_are_remembered_once_and_not_without_bound() -> None:
    hosts = OncePerHost()
    assert hosts.is_first("10.0.0.1:5")
    assert not hosts.is_first("10.0.0.1:6")
    assert hosts.is_first("[::1]:6")
    for number in range(MAX_HOSTS):
        hosts.is_first(f"host{number}:1")
    assert hosts.is_first("10.0.0.1:7")


@pytest.mark.parametrize(
    ("value", "code"), [(b"null", 0), (b'""', 0), (b'"17"', 17), (b"true", 1), (b"17.9", 17), (b"17", 17)]
)
def test_numbers_of_a_header_are_converted_as_by_fastjson(value: bytes, code: int) -> None:
    assert decode_command(Frame(JSON, b'{"code":%s,"opaque":5}' % value)).code == code


@pytest.mark.parametrize(
    ("value", "language"),
    [
        (b'"CPP"', "CPP"),
        (b'"NODE_JS"', "NODE_JS"),
        (b"3", "PYTHON"),
        (b"null", "JAVA"),
        (b'"JA"', "OTHER"),
        (b"99", "OTHER"),
    ],
)
def test_a_language_is_one_of_those_that_are_known(value: bytes, language: str) -> None:
    """Members of groups keep it: a broker grew by 15 MB with each heartbeat."""
    assert decode_command(Frame(JSON, b'{"code":34,"language":%s}' % value)).language == language
    assert decode_command(Frame(JSON, b"{code:34,'language':%s}" % value)).language == language
