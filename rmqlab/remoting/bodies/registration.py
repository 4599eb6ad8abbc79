"""The body of a broker's registration, in its three forms.

    JSON        {"filterServerList":[],"topicConfigSerializeWrapper":{...}}
    legacy      the wrapper alone, from peers below version 37
    compressed  zlib over: i32 size, data version as JSON; i32 topics; for each i32 size and a line of text;
                i32 size, filter servers as JSON

Source: remoting-and-nameserver sections 3.4, 3.5; class RegisterBrokerBody.
"""

import struct
import zlib
from collections.abc import Generator
from typing import Any, ClassVar, Final

import attrs
import msgspec

from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.body import Body, BodyError
from rmqlab.remoting.fastjson import BODY_LIMITS, TextLimits
from rmqlab.remoting.header import java_number
from rmqlab.remoting.steps import run_to_end

FIRST_VERSION_WITH_FILTER_SERVERS: Final = 37
MAX_INFLATED: Final = 16 * 2**20
"""Bytes; a body that inflates to more is rejected. It is the limit of an uncompressed body."""
MAX_TOPICS: Final = 200_000
"""Topics in one registration."""
_TOPICS_AT_ONCE = 10
_INT = struct.Struct(">i")


class RegisterBrokerBody(Body, frozen=True, kw_only=True):
    """Request of 103. Filter servers of None leave those that are known.

    It has the limits of a small body: a nameserver parses it in its event loop, and brokers send strict JSON.
    """

    filter_server_list: list[str] | None = []
    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = msgspec.field(
        default_factory=TopicConfigSerializeWrapper
    )

    @classmethod
    def normalized(cls, value: Any) -> Any:
        """Apply `TopicConfigSerializeWrapper.normalized` to the wrapper."""
        if isinstance(value, dict):
            TopicConfigSerializeWrapper.normalized(value.get("topicConfigSerializeWrapper"))
        return value


class _LegacyTopics(TopicConfigSerializeWrapper, frozen=True, kw_only=True):
    """The legacy form, with the limits of a registration."""

    limits: ClassVar[TextLimits] = BODY_LIMITS


def body_crc32(body: bytes) -> int:
    """Return the checksum of a registration, over the body as sent.

    0 is not checked (remoting#21).
    """
    return zlib.crc32(body) & 0x7FFFFFFF


Decoding = Generator[None, None, RegisterBrokerBody]


def decode_registration(raw: bytes, *, version: int, compressed: bool) -> RegisterBrokerBody:
    """Parse any form; an empty body is a table without topics (remoting#22).

    BodyError if it does not parse.
    """
    return run_to_end(decode_registration_in_steps(raw, version=version, compressed=compressed))


def decode_registration_in_steps(raw: bytes, *, version: int, compressed: bool) -> Decoding:
    """Parse as `decode_registration`, in steps of some topics if compressed."""
    is_compressed = compressed and raw and version >= FIRST_VERSION_WITH_FILTER_SERVERS
    body = (yield from _decode_compressed(raw)) if is_compressed else _decode_json(raw, version)
    _check_topics(len(body.topic_config_serialize_wrapper.topic_config_table))
    return body


def _decode_json(raw: bytes, version: int) -> RegisterBrokerBody:
    if not raw:
        return RegisterBrokerBody()
    if version < FIRST_VERSION_WITH_FILTER_SERVERS:
        legacy = _LegacyTopics.decode(raw)
        wrapper = TopicConfigSerializeWrapper(
            data_version=legacy.data_version, topic_config_table=legacy.topic_config_table
        )
        return RegisterBrokerBody(filter_server_list=None, topic_config_serialize_wrapper=wrapper)
    return RegisterBrokerBody.decode(raw)


def _check_topics(count: int) -> None:
    if count > MAX_TOPICS:
        raise BodyError(f"a registration of {count} topics; at most {MAX_TOPICS}")


def encode_compressed(body: RegisterBrokerBody) -> bytes:
    """Write the compressed form. It has no room for the order and sysflag of a topic."""
    wrapper = body.topic_config_serialize_wrapper
    blocks = [_sized(wrapper.data_version.encode()), _INT.pack(len(wrapper.topic_config_table))]
    blocks += (_sized(_topic_line(topic).encode()) for topic in wrapper.topic_config_table.values())
    blocks.append(_sized(msgspec.json.encode(body.filter_server_list or [])))
    return zlib.compress(b"".join(blocks), 9)


def _sized(block: bytes) -> bytes:
    return _INT.pack(len(block)) + block


def _topic_line(topic: TopicConfig) -> str:
    return f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} {topic.topic_filter_type}"


def _decode_compressed(raw: bytes) -> Decoding:
    reader = _BlockReader(_inflate(raw))
    version = DataVersion.decode(reader.block())
    _check_topics(count := reader.count())
    table: dict[str, TopicConfig] = {}
    for number in range(count):
        if number % _TOPICS_AT_ONCE == 0:
            yield
        topic = _topic_from_line(reader.block())
        table[topic.topic_name] = topic
    try:
        filter_servers = msgspec.json.decode(reader.block(), type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BodyError(f"filter servers: {exc}") from None
    wrapper = TopicConfigSerializeWrapper(data_version=version, topic_config_table=table)
    return RegisterBrokerBody(filter_server_list=filter_servers, topic_config_serialize_wrapper=wrapper)


def _inflate(raw: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(raw, MAX_INFLATED)
    except zlib.error as exc:
        raise BodyError(f"compressed registration: {exc}") from None
    if not stream.eof:
        raise BodyError(f"compressed registration: cut short, or more than {MAX_INFLATED} bytes")
    return data


@attrs.define
class _BlockReader:
    data: bytes
    at: int = 0

    def count(self) -> int:
        if self.at + 4 > len(self.data):
            raise BodyError("compressed registration: ends too early")
        (count,) = _INT.unpack_from(self.data, self.at)
        self.at += 4
        return int(count)

    def block(self) -> bytes:
        size = self.count()
        start, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self.data):
            raise BodyError(f"compressed registration: a block of {size} bytes runs over the end")
        return self.data[start : self.at]


def _topic_from_line(line: bytes) -> TopicConfig:
    """Read `name reads writes perm filterType`.

    5.x writes a sixth word, which 4.9 refuses too.
    """
    try:
        name, reads, writes, perm, filter_type = line.decode().split(" ", 5)
        return TopicConfig(
            topic_name=name,
            read_queue_nums=java_number(reads),
            write_queue_nums=java_number(writes),
            perm=java_number(perm),
            topic_filter_type=filter_type,
        )
    except ValueError:
        raise BodyError(f"compressed registration: not a topic's five words: {line[:100]!r}") from None
