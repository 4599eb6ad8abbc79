"""Bits of registered expressions, as RocketMQ computes them."""

import pytest

from rmqlab.broker.filter.bloom import BloomFilter, murmur3_low64
from rmqlab.remoting.bodies.filter import BloomFilterData


def test_the_default_filter_is_that_of_4_9() -> None:
    bloom = BloomFilter.of(20, 32)
    assert bloom == BloomFilter(bits=112, marks=3)
    assert bloom.data("CG_Sql2#DSql") == BloomFilterData(bit_num=112, bit_pos=[108, 63, 18])


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("group#topic", 0xA546C40B70DA5124), ("CG_Sql2#DSql", 0xE374DD1D02CFF4F6)],
)
def test_the_hash_is_murmur3(text: str, hashed: int) -> None:
    assert murmur3_low64(text.encode()) == hashed


@pytest.mark.parametrize("length", range(40))
def test_every_length_is_hashed_with_all_its_bytes(length: int) -> None:
    data = bytes(range(1, length + 1))
    assert murmur3_low64(data) != murmur3_low64(data + b"\0")
    for at in range(length):
        assert murmur3_low64(data) != murmur3_low64(data[:at] + b"\xff" + data[at + 1 :])


def test_data_of_a_filter_of_another_size_is_not_valid() -> None:
    bloom = BloomFilter.of(20, 32)
    assert bloom.is_valid(bloom.data("a"))
    assert not bloom.is_valid(BloomFilter.of(20, 64).data("a"))
    assert not bloom.is_valid(BloomFilter.of(1, 32).data("a"))
    assert not bloom.is_valid(None)
