"""Received batches of alike messages are recognized, and any others are not."""

import pytest

from rmqlab.remoting.batch import BatchItem, decode_batch, encode_batch
from rmqlab.remoting.message import NewMessage
from rmqlab.store.batches.batchrecords import BatchRecords, shared_fields
from rmqlab.store.batches.uniformbatch import UniformBatchReader
from rmqlab.store.columns import MOST

TOPIC = b"\x06orders"
SHARED = b"WAIT\x01true\x02CLUSTER\x01c"
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


def key(number: int) -> bytes:
    return b"UNIQ_KEY\x01C00002020D4B4E0E2F2A65D1%08X\x02WAIT\x01true" % number


def items_of(numbers: list[int], body: bytes = b"body %02d") -> list[BatchItem]:
    return [BatchItem(body % (number % 100), key(number)) for number in numbers]


@pytest.mark.parametrize(
    "numbers",
    [
        [5],
        [*range(16)],
        [*range(0xFFF8, 0x10008)],
        [3, 1, 2, 3],
        [0x10000007, 0x20000007, 7, 0x10000007],
        [*range(MOST)],
    ],
    ids=["one", "counted", "carried", "shuffled", "equal at both ends", "most"],
)
@pytest.mark.parametrize("body", [b"body %02d", b"%02d" + key(7) + b"\x00\x00\x00\x6f"])
def test_uniform_messages_become_the_bytes_of_their_records(numbers: list[int], body: bytes) -> None:
    """The same as of records made one by one."""
    encoded, reader = encode_batch(items_of(numbers, body)), UniformBatchReader()
    message, queue_offset, first, stored_at = NewMessage("orders", 3, b"", ("", 0), ("", 0), 17), 250, 2**40 - 300, 99
    shared = shared_fields(message, 0, HOST, stored_at, HOST)
    plain = BatchRecords.of(decode_batch(encoded), TOPIC, SHARED, 16)
    for _ in range(2):  # by a new shape, then by the known one
        alike = reader.read(encoded, TOPIC, SHARED, 16)
        assert alike is not None
        offsets = alike.offsets_from(first)
        assert list(offsets) == plain.offsets_from(first)
        assert alike.encode(message, shared, queue_offset, offsets) == plain.encode(
            message, shared, queue_offset, list(offsets)
        )
        assert alike.queue_entries(offsets) == plain.queue_entries(offsets)
        assert alike.tags_codes() == plain.tags_codes()
        assert alike.index_keys(offsets, stored_at) == plain.index_keys(offsets, stored_at)
        assert (len(alike), alike.total) == (len(plain), plain.total)


@pytest.mark.parametrize(
    "items",
    [
        [*items_of([1, 2]), BatchItem(b"body 03", key(3), flag=1)],
        [*items_of([1, 2]), BatchItem(b"longer body", key(3))],
        [*items_of([1, 2]), BatchItem(b"body 03", key(3).replace(b"true", b"TRUE"))],
        [*items_of([1, 2]), BatchItem(b"body 03", key(3).replace(b"C0000", b"C0001"))],
        [*items_of([1, 2]), BatchItem(b"body 03", key(3)[:35] + b"\x01" + key(3)[36:])],
        [BatchItem(b"body 01", b"KEYS\x01k\x02" + key(1))],
        [BatchItem(b"body 01", b"WAIT\x01true")],
        items_of([*range(MOST + 1)]),
    ],
    ids=["flag", "body size", "property", "key", "digits", "keys", "no key", "too many"],
)
def test_any_other_batch_is_not_uniform(items: list[BatchItem]) -> None:
    reader = UniformBatchReader()
    assert reader.read(encode_batch(items_of([1, 2, 3])), TOPIC, SHARED, 16) is not None
    assert reader.read(encode_batch(items), TOPIC, SHARED, 16) is None


@pytest.mark.parametrize("cut", [0, 1, 19, 21, 30, 70, 100, 150])
def test_a_truncated_batch_is_not_uniform(cut: int) -> None:
    assert UniformBatchReader().read(encode_batch(items_of([1, 2]))[:cut], TOPIC, SHARED, 16) is None
