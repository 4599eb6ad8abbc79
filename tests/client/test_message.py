"""Messages as consumers get them from a broker that may send anything."""

import zlib

import pytest

from rmqlab.client.message import MAX_INFLATED_TOGETHER, received_all
from rmqlab.remoting.message import COMPRESSED, MAX_INFLATED, StoredMessage, body_crc, encode_message

HOST = ("127.0.0.1", 1)


def record(body: bytes) -> bytes:
    stored = StoredMessage(
        0, body_crc(body), 0, 0, 0, 0, COMPRESSED, 0, HOST, 0, HOST, 0, 0, body, "T", "", {}
    )  # fmt: skip
    return encode_message(stored)


def test_one_broken_body_is_handed_over_as_stored_and_the_others_are_read(caplog: pytest.LogCaptureFixture) -> None:
    broken = zlib.compress(b"a" * 100)[:-5]
    messages = received_all(record(broken) + record(zlib.compress(b"sound")), "b")
    assert [message.body for message in messages] == [broken, b"sound"]
    assert "passed on as it is stored" in caplog.text


def test_the_bodies_of_one_response_inflate_to_a_bounded_size() -> None:
    """issue 12.14: a response of 16 MiB held 16 GB."""
    bomb, sound = zlib.compress(bytes(MAX_INFLATED)), zlib.compress(b"sound")
    together = MAX_INFLATED_TOGETHER // MAX_INFLATED
    messages = received_all(record(bomb) * (together + 2), "b")
    assert sum(len(message.body) == MAX_INFLATED for message in messages) == together
    assert [message.body for message in messages[together:]] == [bomb, bomb]
    assert [message.body for message in received_all(record(sound), "b")] == [b"sound"]
