"""The stored record and its parts, compared with RocketMQ's own bytes if recorded."""

import contextlib
import datetime as dt
import json
import pathlib
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.remoting.compression import MAX_INFLATED, decompress_body
from rmqlab.remoting.message import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_ZSTD,
    FIXED_SIZE,
    HEADS,
    MESSAGE_MAGIC,
    RecordError,
    StoredMessage,
    body_crc,
    decode_message,
    decode_messages,
    decode_properties,
    format_properties,
    java_hash,
    offset_message_id,
    offset_message_ids,
    pack_host,
    parse_offset_message_id,
    parse_properties,
)
from rmqlab.remoting.unique_ids import UniqueIdGenerator

WIRE = pathlib.Path(__file__).parents[1] / "golden" / "wire"


def frames(file: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Header and body of each recorded frame."""
    for line in (WIRE / file).read_text().splitlines():
        frame = json.loads(line)
        raw = bytes.fromhex(frame["hex"])
        yield frame["header"], raw[8 + int.from_bytes(raw[5:8], "big") :]


def a_record(born: str = "10.0.0.1", store: str = "10.0.0.2") -> bytes:
    born_host, store_host = pack_host((born, 5)), pack_host((store, 6))
    bits = (0x10 if len(born_host) == 20 else 0) | (0x20 if len(store_host) == 20 else 0)
    head = HEADS[bits >> 4]
    tail = b"\x01T" + b"\x00\x03k\x01v"
    return head.pack(
        head.size + 5 + len(tail), MESSAGE_MAGIC, body_crc(b"hello"), 3, 7, 11, 1000, bits, 100, born_host, 200,
        store_host, 1, 900, 5,
    ) + b"hello" + tail  # fmt: skip


# ---- hashes ----


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("TagA", 2598919), ("", 0), ("polygenelubricants", -2147483648), ("é", 233), ("😀", 1772899)],
)  # fmt: skip
def test_hash_is_that_of_java(text: str, hashed: int) -> None:
    """store-ha#19."""
    assert java_hash(text) == hashed


@given(st.text(max_size=60) | st.text("ab", min_size=1990, max_size=2010))
def test_hash_follows_its_definition_for_any_text(text: str) -> None:
    """store-ha#19: h = 31 h + UTF-16 unit, as a signed 32-bit number.

    Also beyond the length int() reads at once.
    """
    expected, units = 0, text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        expected = (31 * expected + int.from_bytes(units[at : at + 2], "big")) % 2**32
    assert java_hash(text) == (expected - 2**32 if expected >= 2**31 else expected)


def test_body_crc_of_hello_has_its_sign_bit_cleared() -> None:
    """store-ha#9."""
    assert body_crc(b"hello") == 907060870
    assert body_crc(b"") == 0


# ---- properties ----


@given(st.dictionaries(st.text(st.characters(exclude_characters="\1\2"), min_size=1), st.text(st.characters(exclude_characters="\1\2"), min_size=1)))  # fmt: skip
def test_properties_survive_being_written_and_read(properties: dict[str, str]) -> None:
    """store-ha#13."""
    assert parse_properties(format_properties(properties)) == properties
    assert parse_properties(format_properties(properties) + "\x02") == properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01\x02b\x01c", {"b": "c"}),
        ("\x01c\x02ab\x02a\x01b\x01c", {"a": "b\x01c"}),
        ("WAIT\x01true\x02WAIT\x01false", {"WAIT": "false"}),
    ],
)
def test_pieces_without_name_or_value_vanish_and_the_last_of_a_name_counts(
    text: str, properties: dict[str, str]
) -> None:
    """store-ha#13."""
    assert parse_properties(text) == properties


# ---- records ----


def test_record_size_is_91_and_what_varies() -> None:
    """store-ha#8."""
    record = decode_message(a_record())
    assert record.store_size == FIXED_SIZE + len(b"hello") + len("T") + len("k\x01v")
    assert (record.queue_id, record.flag, record.queue_offset, record.physical_offset) == (3, 7, 11, 1000)
    assert (record.born_timestamp, record.store_timestamp) == (100, 200)
    assert (record.reconsume_times, record.prepared_transaction_offset) == (1, 900)
    assert (record.topic, record.body, record.properties) == ("T", b"hello", {"k": "v"})
    assert record.is_intact


@pytest.mark.parametrize("born", ["10.0.0.1", "fd00::1"])
@pytest.mark.parametrize("store", ["10.0.0.2", "::1"])
def test_ipv6_hosts_take_20_bytes(born: str, store: str) -> None:
    """store-ha#10."""
    record = decode_message(b"before" + a_record(born, store), 6)
    assert (record.born_host, record.store_host) == ((born, 5), (store, 6))
    assert record.store_size == 91 + 9 + 12 * (":" in born) + 12 * (":" in store)


@pytest.mark.parametrize("size", range(len(a_record())))
def test_a_cut_record_is_an_error_and_nothing_else(size: int) -> None:
    with pytest.raises(RecordError):
        decode_message(a_record()[:size])


@given(st.binary(max_size=120), st.integers(0, 95))
def test_garbage_in_a_record_is_an_error_or_another_record(garbage: bytes, at: int) -> None:
    broken = bytearray(a_record())
    broken[at : at + len(garbage)] = garbage
    with contextlib.suppress(RecordError):
        decode_message(bytes(broken))


def test_recorded_pull_responses_decode_to_their_last_byte() -> None:
    """All message forms of a real broker: compressed, batched, delayed, IPv6."""
    pulls, records = set[int](), list[StoredMessage]()
    for header, body in frames("c_consume_all.jsonl"):
        if header.get("code") == 11 and not header["flag"] & 1:
            pulls.add(header["opaque"])
        elif header["flag"] & 1 and header["code"] == 0 and header["opaque"] in pulls and body:
            pulled = list(decode_messages(memoryview(body)))
            assert sum(record.store_size for record in pulled) == len(body)
            records += pulled
    assert len(records) > 20
    assert all(record.is_intact for record in records)
    assert any(record.sys_flag & COMPRESSED for record in records)
    assert any(record.sys_flag & 0x10 for record in records)
    for record in records:
        if record.sys_flag & COMPRESSED and record.sys_flag & 0x300 in (0, 0x300):
            assert len(decompress_body(record.body, record.sys_flag)) >= 4096  # smaller ones are not compressed


def test_a_body_in_a_format_we_lack_names_the_missing_package() -> None:
    assert decompress_body(b"plain", 0) == b"plain"
    assert decompress_body(zlib.compress(b"old client"), COMPRESSED) == b"old client"
    with pytest.raises(RecordError, match="lz4"):
        decompress_body(b"", COMPRESSED | COMPRESSION_LZ4)
    with pytest.raises(RecordError, match="zstandard"):
        decompress_body(b"", COMPRESSED | COMPRESSION_ZSTD)


# ---- ids ----


@pytest.mark.parametrize(
    ("host", "port", "offset", "text"),
    [
        ("127.0.0.1", 26911, 10941, "7F0000010000691F0000000000002ABD"),
        ("fd00::2", 10911, 2**40, "FD00000000000000000000000000000200002A9F0000010000000000"),
    ],
)
def test_offset_message_id_is_32_or_56_upper_case_digits(host: str, port: int, offset: int, text: str) -> None:
    """store-ha#16."""
    assert offset_message_id(host, port, offset) == text
    assert offset_message_ids(host, port, [offset]) == text.encode()
    assert offset_message_ids(host, port, [offset, offset]) == f"{text},{text}".encode()
    assert parse_offset_message_id(text) == (host, port, offset)


@pytest.mark.parametrize("text", ["", "xyz", "7F00", "7F0000010000691F0000000000002ABD00"])
def test_text_that_is_no_message_id_is_an_error(text: str) -> None:
    with pytest.raises(RecordError):
        parse_offset_message_id(text)


def test_unique_ids_count_up_and_carry_the_time_since_the_month_began() -> None:
    """Section 2.7."""
    moment = dt.datetime(2026, 11, 1, 0, 0, 1).astimezone()
    now = [int(moment.timestamp() * 1000)]
    ids = UniqueIdGenerator("192.0.2.2", 0x1_2345, lambda: now[0], salt=0x4E0E2F2A)
    assert ids.next() == "C0000202" + "2345" + "4E0E2F2A" + "000003E8" + "0000"
    now[0] += 1
    assert ids.next() == "C0000202" + "2345" + "4E0E2F2A" + "000003E9" + "0001"
    now[0] += 30 * 86_400_000
    assert ids.next()[20:28] == "000003E9"  # a new month: the time starts anew
    assert len(UniqueIdGenerator("fd00::2", 1, lambda: now[0]).next()) == 56


def test_a_body_that_inflates_without_bound_or_not_at_all_is_refused() -> None:
    """issue 12.14"""
    whole = zlib.compress(b"x" * 1000)
    assert decompress_body(whole, COMPRESSED, 1000) == b"x" * 1000
    assert decompress_body(zlib.compress(b""), COMPRESSED, 0) == b""
    with pytest.raises(RecordError, match="decompresses to more than 999"):
        decompress_body(whole, COMPRESSED, 999)
    bomb = zlib.compress(bytes(MAX_INFLATED + 1))
    with pytest.raises(RecordError, match=f"decompresses to more than {MAX_INFLATED}"):
        decompress_body(bomb, COMPRESSED)
    for broken in (whole[:-1], b"", b"no zlib", whole[:8] + b"\xff" * 8):
        with pytest.raises(RecordError):
            decompress_body(broken, COMPRESSED)


@given(st.integers(0, 200), st.binary(max_size=8), st.integers(0, 200))
def test_properties_of_a_record_that_is_cut_or_garbled_are_an_error_and_no_other_one(
    at: int, garbage: bytes, size: int
) -> None:
    """Issue 12.3: a master's log may contain any bytes, and held pulls read them.

    They read the properties of new messages.
    """
    record = bytearray(a_record())
    record[at : at + len(garbage)] = garbage
    with contextlib.suppress(RecordError):
        decode_properties(bytes(record[:size]))


def test_properties_of_half_a_record_are_an_error() -> None:
    with pytest.raises(RecordError):
        decode_properties(a_record()[:40])


def test_a_record_needs_no_properties() -> None:
    head = HEADS[0].pack(HEADS[0].size + 4, MESSAGE_MAGIC, 0, 3, 0, 7, 0, 0, 1, bytes(8), 2, bytes(8), 0, 0, 0)
    stored = decode_message(head + b"\x01T\x00\x00")
    assert (stored.topic, stored.properties, stored.queue_id, stored.queue_offset) == ("T", {}, 3, 7)
    with pytest.raises(RecordError, match="do not fill"):
        decode_message(head + b"\x01T\x00\x01")
