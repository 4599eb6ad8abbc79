"""The stored message: its bytes in the commit log, its properties, its ids.

The commit log, pull responses and responses to queries by id contain the same record (store-and-ha section 2). No I/O,
no clocks. Text is UTF-8, integers are big-endian.
"""

import functools
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Final

import attrs
import msgspec

Host = tuple[str, int]
Buffer = bytes | bytearray | memoryview

MESSAGE_MAGIC: Final = -626843481  # 0xDAA320A7
BLANK_MAGIC: Final = -875286124  # 0xCBD43194: the rest of a commit log file is empty
BLANK_SIZE: Final = 8
FIXED_SIZE: Final = 91  # size of a record with IPv4 hosts, without body, topic and properties

# sysFlag bits (section 2.2)
COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC
BORN_HOST_IPV6: Final = 0x10
STORE_HOST_IPV6: Final = 0x20
IPV6_MASK: Final = 0x30
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300
COMPRESSION_MASK: Final = 0x700

# Property names that clients, broker and store interpret (section 2.4)
PROPERTY_KEYS: Final = "KEYS"
PROPERTY_TAGS: Final = "TAGS"
PROPERTY_WAIT: Final = "WAIT"
PROPERTY_DELAY: Final = "DELAY"
PROPERTY_RETRY_TOPIC: Final = "RETRY_TOPIC"
PROPERTY_REAL_TOPIC: Final = "REAL_TOPIC"
PROPERTY_REAL_QID: Final = "REAL_QID"
PROPERTY_TRAN_MSG: Final = "TRAN_MSG"
PROPERTY_PGROUP: Final = "PGROUP"
PROPERTY_MIN_OFFSET: Final = "MIN_OFFSET"
PROPERTY_MAX_OFFSET: Final = "MAX_OFFSET"
PROPERTY_ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
PROPERTY_RECONSUME_TIME: Final = "RECONSUME_TIME"
PROPERTY_MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
PROPERTY_MSG_REGION: Final = "MSG_REGION"
PROPERTY_TRACE_ON: Final = "TRACE_ON"
PROPERTY_UNIQ_KEY: Final = "UNIQ_KEY"
PROPERTY_CONSUME_START_TIME: Final = "CONSUME_START_TIME"
PROPERTY_TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
PROPERTY_TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
PROPERTY_CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PROPERTY_INSTANCE_ID: Final = "INSTANCE_ID"
PROPERTY_CLUSTER: Final = "CLUSTER"
PROPERTY_MSG_TYPE: Final = "MSG_TYPE"
PROPERTY_CORRELATION_ID: Final = "CORRELATION_ID"
PROPERTY_REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
PROPERTY_TTL: Final = "TTL"
PROPERTY_PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"

NAME_END: Final = "\x01"
PAIR_END: Final = "\x02"


class RecordError(ValueError):
    """Bytes that are not a complete, well-formed record, batch item or message id."""


# ---- properties ------------------------------------------------------------------------------------------


def parse_properties(text: str) -> dict[str, str]:
    """Parse stored properties.

    Pairs without name or value are dropped, as in RocketMQ (store-ha#13).
    """
    properties: dict[str, str] = {}
    for piece in text.split(PAIR_END):
        name, _, value = piece.partition(NAME_END)
        if name and value:
            properties[name] = value
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    return PAIR_END.join(map(NAME_END.join, properties.items()))


# ---- Java's String.hashCode ------------------------------------------------------------------------------

# A hash is a number in base 31 with digits above 30. Each latin-1 character c is 31 * high + low, so the hash is the
# sum of two proper base-31 numbers, of the low and the high parts, which int() parses at the speed of C.
_DIGITS = b"0123456789abcdefghijklmnopqrstu"
HASH_HIGH: Final = bytes(_DIGITS[c // 31] for c in range(256))
HASH_LOW: Final = bytes(_DIGITS[c % 31] for c in range(256))
HASH_CHUNK: Final = 2000  # int() rejects texts longer than 4300 digits
_short_hashes: dict[str, int] = {}


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`, a signed 32-bit number.

    Tags codes and index keys are such hashes (store-ha#19).
    """
    if (known := _short_hashes.get(text)) is not None:
        return known
    try:
        units = text.encode("latin-1")
    except UnicodeEncodeError:
        return _signed(_hash_of_utf16(text))
    hashed = _signed(unsigned_hash(units))
    if len(text) <= 16:  # cache short texts only: tags repeat, keys do not
        if len(_short_hashes) >= 4096:
            _short_hashes.clear()
        _short_hashes[text] = hashed
    return hashed


def unsigned_hash(units: bytes) -> int:
    """Return the hash of latin-1 text, mod 2**32."""
    if 0 < len(units) <= HASH_CHUNK:
        return (31 * int(units.translate(HASH_HIGH), 31) + int(units.translate(HASH_LOW), 31)) & 0xFFFFFFFF
    hashed = 0
    for at in range(0, len(units), HASH_CHUNK):
        chunk = units[at : at + HASH_CHUNK]
        hashed = (hashed * pow(31, len(chunk), 1 << 32) + unsigned_hash(chunk)) & 0xFFFFFFFF
    return hashed


def _hash_of_utf16(text: str) -> int:
    encoded = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return hashed


def _signed(hashed: int) -> int:
    return hashed - 0x1_0000_0000 if hashed & 0x8000_0000 else hashed


# ---- hosts and ids ---------------------------------------------------------------------------------------

_packed_hosts: dict[Host, bytes] = {}
_texts: dict[bytes, str] = {}


def pack_host(host: Host) -> bytes:
    """Return address and port as stored: 8 bytes, or 20 for IPv6 (store-ha#10)."""
    packed = _packed_hosts.get(host)
    if packed is None:
        if len(_packed_hosts) >= 4096:
            _packed_hosts.clear()
        packed = _packed_hosts[host] = ip_address(host[0]).packed + struct.pack(">i", host[1])
    return packed


def _ip_text(packed: bytes) -> str:
    text = _texts.get(packed)
    if text is None:
        if len(_texts) >= 4096:
            _texts.clear()
        text = _texts[packed] = str(ip_address(packed))
    return text


def offset_message_id(host: str, port: int, offset: int) -> str:
    """Return the msgId of a send response: broker and commit log offset.

    Section 2.7, store-ha#16.
    """
    return f"{host_id(host, port)}{offset:016X}"


@functools.lru_cache(256)
def host_id(host: str, port: int) -> str:
    """Return the prefix of message ids that identifies the broker."""
    return pack_host((host, port)).hex().upper()


def offset_message_ids(host: str, port: int, offsets: Sequence[int]) -> bytes:
    """Return the ids of a batch, joined by commas, as sent on the wire."""
    prefix = _id_prefix(host, port)
    if len(offsets) == 1:
        return b"%s%016X" % (prefix, offsets[0])
    texts = struct.pack(f">{len(offsets)}q", *offsets).hex(",", 8).upper()
    return prefix + texts.encode().replace(b",", b"," + prefix)


@functools.lru_cache(256)
def _id_prefix(host: str, port: int) -> bytes:
    """Return the common prefix of all message ids of a broker."""
    return host_id(host, port).encode()


def parse_offset_message_id(message_id: str) -> tuple[str, int, int]:
    """Return host, port and commit log offset of a message id.

    RecordError if it is invalid.
    """
    try:
        raw = bytes.fromhex(message_id)
    except ValueError:
        raise RecordError(f"message id {message_id!r} is not hexadecimal") from None
    if len(raw) not in (16, 28):
        raise RecordError(f"message id {message_id!r} has {len(message_id)} characters; expected 32 or 56")
    port, offset = struct.unpack(">iq", raw[-12:])
    return str(ip_address(raw[:-12])), port, offset


# ---- records ---------------------------------------------------------------------------------------------


def _head(born: int, store: int) -> struct.Struct:
    return struct.Struct(f">iiiiiqqiq{born}sq{store}siqi")


# Fields from totalSize to the body length, by (sysFlag & IPV6_MASK) >> 4. Hosts stay packed.
HEADS: Final = (_head(8, 8), _head(20, 8), _head(8, 20), _head(20, 20))
# Positions in a record.
CRC_AT, QUEUE_OFFSET_AT, PHYSICAL_OFFSET_AT, SYS_FLAG_AT = 8, 20, 28, 36
IPV4_HEAD_SIZE: Final = HEADS[0].size
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_SHORT = struct.Struct(">h")


class NewMessage(msgspec.Struct, eq=False):
    """A message that the broker passes to the store."""

    topic: str
    queue_id: int
    body: bytes | memoryview
    born_host: Host
    store_host: Host
    born_timestamp: int = 0
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    properties: str = ""  # the exact text to store; tags and keys are parsed from it


@attrs.define(slots=True)
class StoredMessage:
    """One decoded record. `body` is as stored: see `decompress_body`."""

    store_size: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: Host
    store_timestamp: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties_text: str
    properties: dict[str, str]

    @property
    def offset_message_id(self) -> str:
        return offset_message_id(*self.store_host, self.physical_offset)

    @property
    def is_intact(self) -> bool:
        return body_crc(self.body) == self.body_crc


def store_time_at(sys_flag: int) -> int:
    """Return the position of the store time in a record: behind the host of birth."""
    return 68 if sys_flag & BORN_HOST_IPV6 else 56


def body_crc(body: Buffer) -> int:
    """Return the CRC-32 without its sign bit (store-ha#9)."""
    return zlib.crc32(body) & 0x7FFFFFFF


def decode_message(view: Buffer, at: int = 0) -> StoredMessage:
    """Decode the record at `at`.

    RecordError if it is truncated or its lengths are inconsistent.
    """
    try:
        (sys_flag,) = _INT.unpack_from(view, at + SYS_FLAG_AT)
        head = HEADS[(sys_flag & IPV6_MASK) >> 4]
        (size, magic, crc, queue_id, flag, queue_offset, physical_offset, _, born_at, born, stored_at, store,
         reconsume_times, prepared, body_size) = head.unpack_from(view, at)  # fmt: skip
    except struct.error:
        raise RecordError(f"{len(view) - at} bytes are too few for a record") from None
    if magic != MESSAGE_MAGIC:
        raise RecordError(f"magic {magic & 0xFFFFFFFF:08X} at {at} is not a message magic")
    end, body_at = at + size, at + head.size
    tail = bytes(view[body_at + body_size : end])
    if body_size < 0 or end > len(view) or len(tail) < 3:
        raise RecordError(f"record at {at} has size {size} and body size {body_size}; {len(view) - at} bytes follow")
    properties_at = 1 + tail[0] + 2
    if len(tail) < properties_at or properties_at + _SHORT.unpack_from(tail, properties_at - 2)[0] != len(tail):
        raise RecordError(f"record at {at}: topic and properties do not fill its {size} bytes")
    text = tail[properties_at:].decode("utf-8", "replace")
    return StoredMessage(
        size, crc, queue_id, flag, queue_offset, physical_offset, sys_flag,
        born_at, (_ip_text(born[:-4]), _INT.unpack(born[-4:])[0]),
        stored_at, (_ip_text(store[:-4]), _INT.unpack(store[-4:])[0]),
        reconsume_times, prepared, bytes(view[body_at : body_at + body_size]),
        tail[1 : properties_at - 2].decode("utf-8", "replace"), text, parse_properties(text),
    )  # fmt: skip


def decode_properties(view: Buffer, at: int = 0) -> dict[str, str]:
    """Decode only the properties of the complete record at `at`.

    RecordError if its lengths are inconsistent.
    """
    try:
        (sys_flag,) = _INT.unpack_from(view, at + SYS_FLAG_AT)
        head = HEADS[(sys_flag & IPV6_MASK) >> 4]
        (body_size,) = _INT.unpack_from(view, at + head.size - 4)
        topic_at = at + head.size + body_size
        size_at = topic_at + 1 + view[topic_at]
        (size,) = _SHORT.unpack_from(view, size_at)
    except (struct.error, IndexError):
        raise RecordError(f"record at {at}: its parts exceed the {len(view) - at} bytes that follow") from None
    return parse_properties(bytes(view[size_at + 2 : size_at + 2 + size]).decode("utf-8", "replace"))


def decode_messages(body: Buffer) -> Iterator[StoredMessage]:
    """Yield the records of a pull or query response, which are concatenated."""
    at = 0
    while at < len(body):
        message = decode_message(body, at)
        yield message
        at += message.store_size


def encode_message(message: StoredMessage) -> bytes:
    """Return the bytes of a record.

    `store_size` is ignored and computed from the parts.
    """
    head, body = HEADS[(message.sys_flag & IPV6_MASK) >> 4], message.body
    topic, properties = message.topic.encode(), message.properties_text.encode()
    tail = bytes([len(topic)]) + topic + _SHORT.pack(len(properties)) + properties
    return head.pack(
        head.size + len(body) + len(tail), MESSAGE_MAGIC, message.body_crc, message.queue_id, message.flag,
        message.queue_offset, message.physical_offset, message.sys_flag, message.born_timestamp,
        pack_host(message.born_host), message.store_timestamp, pack_host(message.store_host),
        message.reconsume_times, message.prepared_transaction_offset, len(body),
    ) + body + tail  # fmt: skip
