"""Batch bodies, against those that a Java producer sent."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.remoting.batch import Batch, BatchItem, decode_batch, encode_batch
from rmqlab.remoting.message import RecordError, parse_properties

WIRE = pathlib.Path(__file__).parents[1] / "golden" / "wire"


def recorded_batches() -> list[bytes]:
    frames = [json.loads(line) for line in (WIRE / "c_basic.jsonl").read_text().splitlines()]
    raws = [bytes.fromhex(frame["hex"]) for frame in frames if frame["header"]["code"] == 320]
    return [raw[8 + int.from_bytes(raw[5:8], "big") :] for raw in raws]


def test_a_recorded_batch_is_read_and_written_alike() -> None:
    """store-ha#17: the request body of a Java producer."""
    bodies = recorded_batches()
    assert bodies
    for body in bodies:
        batch = decode_batch(body)
        assert len(batch) == 3
        assert encode_batch([*batch]) == body
        assert all("UNIQ_KEY" in parse_properties(text.decode()) for text in batch.properties)


@given(st.lists(st.builds(BatchItem, st.binary(), st.binary(max_size=99), st.integers(-(2**31), 2**31 - 1))), st.data())
def test_a_batch_cut_anywhere_inside_an_item_is_an_error(items: list[BatchItem], data: st.DataObject) -> None:
    whole = encode_batch(items)
    assert decode_batch(whole) == Batch.of(items)
    ends = {len(encode_batch(items[:count])) for count in range(len(items) + 1)}
    cut = data.draw(st.integers(0, len(whole)))
    if cut not in ends:
        with pytest.raises(RecordError):
            decode_batch(whole[:cut])


def sized(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


ALIKE = st.tuples(st.integers(0, 30), st.integers(0, 30)).flatmap(
    lambda sizes: st.lists(st.builds(BatchItem, sized(sizes[0]), sized(sizes[1]), st.sampled_from([0, 7])), min_size=1)
)
"""Messages of one size: `decode_batch` has a way of its own for them."""


@given(ALIKE)
def test_a_batch_of_messages_of_one_size_is_read_as_sent(items: list[BatchItem]) -> None:
    assert decode_batch(encode_batch(items)) == Batch.of(items)


def test_a_batch_of_one_total_size_and_different_parts_is_read_as_sent() -> None:
    items = [BatchItem(b"12345", b"abc"), BatchItem(b"123", b"abcde"), BatchItem(b"", b"12345678")]
    assert decode_batch(encode_batch(items)) == Batch.of(items)


@given(st.one_of(ALIKE, st.lists(st.builds(BatchItem, st.binary(), st.binary(max_size=99)), min_size=1)), st.data())
def test_a_batch_whose_lengths_disagree_is_an_error_or_another_batch(
    items: list[BatchItem], data: st.DataObject
) -> None:
    """Nothing but RecordError, and nothing read beyond the end."""
    whole = bytearray(encode_batch(items))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        batch = decode_batch(bytes(whole))
    except RecordError:
        return
    assert sum(22 + len(item.body) + len(item.properties) for item in batch) == len(whole)
