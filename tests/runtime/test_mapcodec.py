import contextlib
import os

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.runtime.node import mapcodec
from rmqlab.runtime.node.controlmessages import CONTROL, Event, Hello, Message, Ready, Snapshot, SnapshotRequest
from rmqlab.runtime.node.mapcodec import ControlError

MESSAGES: list[Message] = [
    Hello("broker-a", 17),
    Ready({"address": "127.0.0.1:10911"}),
    Event(5, "route-changed", {"topics": ["a", "b"], "gone": None}),
    SnapshotRequest(3),
    Snapshot(3, {"commit_log": {"max": 2**40}}),
]


def decode_all(data: bytes) -> list[Message]:
    decoder = CONTROL.decoder()
    decoder.feed(data)
    return list(decoder.messages())


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_messages_arrive_whole_however_the_bytes_are_cut(step: int) -> None:
    wire, decoder, got = b"".join(map(CONTROL.encode, MESSAGES)), CONTROL.decoder(), list[Message]()
    for start in range(0, len(wire), step):
        decoder.feed(wire[start : start + step])
        got += decoder.messages()
    assert got == MESSAGES


@pytest.mark.parametrize(
    "value",
    [
        7,
        {"type": "Hello"},
        {"type": "Hallo", "name": "x", "pid": 1},
        {"type": "Hello", "name": "x", "pid": "one"},
        {"type": "Hello", "name": "x", "pid": 1, "more": 1},
        {"name": "x", "pid": 1},
    ],
)
def test_an_invalid_message_is_rejected(value: object) -> None:
    with pytest.raises(ControlError):
        decode_all(msgpack.packb(value))


def test_bytes_that_are_no_msgpack_are_refused() -> None:
    with pytest.raises(ControlError):
        decode_all(b"\xc1\xc1")


def test_a_message_too_large_is_refused_before_it_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapcodec, "MAX_MESSAGE", 1000)
    monkeypatch.setattr(mapcodec, "CHUNK", 0)
    decoder = CONTROL.decoder()
    decoder.feed(CONTROL.encode(Hello("x", 1))[:-1])
    with pytest.raises(ControlError, match="more than 1000 bytes"):
        decoder.feed(bytes(1000))
    with pytest.raises(ControlError, match="at most 1000"):
        CONTROL.encode(Ready({"x": "x" * 1000}))


def test_values_without_a_msgpack_form_are_sent_as_text() -> None:
    assert decode_all(CONTROL.encode(Ready({"path": os}))) == [Ready({"path": str(os)})]


HUGE_LISTS = b"\xdd\xff\xff\xff\xff" * 500
"""Headers of 5 bytes, each of a list of 2^32 - 1 items, in each other."""


@pytest.mark.parametrize(
    "data",
    [
        HUGE_LISTS,
        b"\xdf\xff\xff\xff\xff",
        b"\x91" * 2000,
        b"\x81\x91\x01\x01",
        b"\x81\xa4type\x90",
        b"\x81\xa4type\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00",
        msgpack.packb({"type": "Hello", "name": "x", "pid": float("inf")}),
        msgpack.packb({"type": "Event", "at_millis": float("nan"), "kind": [], "fields": 7}),
        b"\xa4\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_whatever_the_bytes_are_they_are_refused_in_one_way(data: bytes) -> None:
    with pytest.raises(ControlError) as error:
        decode_all(data)
    assert len(str(error.value)) < 500


@given(st.binary())
def test_any_bytes_are_messages_or_refused(data: bytes) -> None:
    with contextlib.suppress(ControlError):
        decode_all(data)


def test_an_unencodable_value_is_rejected() -> None:
    with pytest.raises(ControlError, match="Ready"):
        CONTROL.encode(Ready({"x": "\ud800"}))
