"""Messages as consumers get them from a broker that may send anything."""

import zlib

import pytest

from rmqlab.client.message import MAX_INFLATED_TOGETHER, received_all
from rmqlab.remoting.compression import MAX_INFLATED, decompress_body
from rmqlab.remoting.message import (
    COMPRESSED,
    StoredMessage,
    body_crc,
    encode_message,
)

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


WHOLE = zlib.compress(bytes(MAX_INFLATED))


@pytest.mark.parametrize(
    "bomb",
    [zlib.compress(bytes(2 * MAX_INFLATED)), WHOLE[:-4], WHOLE[:-4] + b"1234"],
    ids=["too large", "truncated", "wrong checksum"],
)
def test_bodies_that_are_decompressed_in_vain_count_too(monkeypatch: pytest.MonkeyPatch, bomb: bytes) -> None:
    """A response of 16 MiB took minutes.

    250 bodies of it were decompressed, each up to the limit of one.
    """
    limits = list[int]()

    def decompressed(body: bytes, sys_flag: int, limit: int) -> bytes:
        limits.append(limit)
        return decompress_body(body, sys_flag, limit)

    monkeypatch.setattr("rmqlab.client.message.decompress_body", decompressed)
    messages = received_all(record(bomb) * 5, "b")
    assert [message.body for message in messages] == [bomb] * 5
    assert limits == [MAX_INFLATED] * (MAX_INFLATED_TOGETHER // MAX_INFLATED) + [0] * 3


def test_bodies_that_are_not_compressed_leave_room_for_those_that_are() -> None:
    """Each counted 64 MiB: behind two of them, sound bodies were passed on compressed."""
    plain, sound = b"no zlib" * 10_000, bytes(3 * 2**20) + b"sound"
    messages = received_all(record(plain) * 10 + record(zlib.compress(sound)), "b")
    assert [message.body for message in messages] == [plain] * 10 + [sound]
