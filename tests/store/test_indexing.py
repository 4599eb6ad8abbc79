"""Hashes of keys by the short way and by the long one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.store.columns import DIGITS
from rmqlab.store.keyindex.indexing import (
    hashes_of_digits,
    hashes_of_uniform,
    index_hashes,
    topic_parts_of,
    unique_key_hash,
)

TOPICS = st.text(min_size=1, max_size=40)
CLIENTS_KEYS = st.sampled_from([32, 56]).flatmap(lambda size: st.text("0123456789ABCDEF", min_size=size, max_size=size))
OTHERS = st.lists(st.sampled_from(["WAIT\x01true", "TAGS\x01a", "xUNIQ_KEY\x01no", "a\x01KEYS"]), max_size=3)


@given(TOPICS, CLIENTS_KEYS, OTHERS, OTHERS)
def test_a_clients_unique_key_has_one_hash_by_either_way(
    topic: str, key: str, before: list[str], after: list[str]
) -> None:
    """store-ha#23."""
    text = "\x02".join(["", *before, f"UNIQ_KEY\x01{key}", *after, ""]).encode()
    prefix = f"{topic}#".encode()
    assert [unique_key_hash(text, topic_parts_of(prefix))] == index_hashes(text, prefix)


@pytest.mark.parametrize(
    "text",
    [
        "\x02WAIT\x01true\x02",
        "\x02UNIQ_KEY\x01short\x02",
        f"\x02UNIQ_KEY\x01{'0' * 33}\x02",
        f"\x02UNIQ_KEY\x01{'é' * 16}\x02",
        f"\x02UNIQ_KEY\x01{'z' * 32}\x02",
        f"\x02KEYS\x01k\x02UNIQ_KEY\x01{'0' * 32}\x02",
        f"\x02UNIQ_KEY\x01{'0' * 32}\x02KEYS\x01k l\x02",
    ],
)
def test_properties_with_more_than_a_clients_unique_key_go_the_long_way(text: str) -> None:
    assert unique_key_hash(text.encode(), topic_parts_of(b"orders#")) is None


@given(st.lists(st.binary(min_size=DIGITS, max_size=DIGITS)), st.integers(0, 2**32 - 1))
def test_hashes_of_digits_are_those_of_an_index(keys: list[bytes], hashed: int) -> None:
    """store-ha#23. `hashed` is the hash of all before the digits.

    A base has "0"s in the places of the digits.
    """
    base = (hashed * 31**DIGITS + 48 * sum(31**i for i in range(DIGITS))) & 0xFFFFFFFF
    expected = [hashed] * len(keys)
    for at in range(DIGITS):
        expected = [(one * 31 + key[at]) & 0xFFFFFFFF for one, key in zip(expected, keys, strict=True)]
    assert hashes_of_digits(b"".join(keys), base) == [java_abs(one) for one in expected]


def java_abs(unsigned: int) -> int:
    signed = unsigned - (unsigned >> 31 << 32)
    return 0 if signed == -(2**31) else abs(signed)


def test_hashes_of_more_keys_than_a_number_has_lanes() -> None:
    texts = [b"UNIQ_KEY\x01C00002020D4B4E0E2F2A65D1%08X\x02WAIT\x01true" % number for number in range(1300)]
    expected = [index_hashes(b"\x02" + text + b"\x02", b"orders#")[0] for text in texts]
    assert hashes_of_uniform(texts, b"", topic_parts_of(b"orders#")) == expected


def test_the_least_hash_of_java_is_indexed_as_0() -> None:
    """store-ha#23: Java's abs of it is still negative."""
    assert hashes_of_digits(b"0" * DIGITS, 2**31) == [0]
    assert hashes_of_digits(b"0" * DIGITS, 2**31 + 1) == [2**31 - 1]


ONE, TWO = (f"UNIQ_KEY\x01C00002020D4B4E0E2F2A65D1{number:08X}\x02WAIT\x01true".encode() for number in (1, 2))


@pytest.mark.parametrize(
    "texts",
    [
        [ONE + TWO, b""],
        [ONE[:-1], ONE[-1:] + TWO],
        [ONE, TWO + b"\x02"],
        [ONE, TWO[:-1] + b"f"],
        [ONE, b"x" + TWO[1:]],
        [ONE, TWO[:34] + b"\x02" + TWO[35:]],
        [ONE, TWO[:34] + ONE[:33] + TWO[-8:]],
    ],
)
def test_texts_that_differ_in_more_than_their_last_digits_are_not_alike(texts: list[bytes]) -> None:
    assert hashes_of_uniform([ONE, TWO], b"", topic_parts_of(b"orders#")) is not None
    assert hashes_of_uniform(texts, b"", topic_parts_of(b"orders#")) is None
