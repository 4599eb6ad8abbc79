"""Hashes of keys by the short way and by the long one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.store.indexing import index_hashes, topic_parts_of, unique_key_hash

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
def test_what_is_not_just_a_clients_unique_key_goes_the_long_way(text: str) -> None:
    assert unique_key_hash(text.encode(), topic_parts_of(b"orders#")) is None
