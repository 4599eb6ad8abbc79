"""Bytes that change on a link: how many, and which. No socket."""

import logging
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from rmqlab.faults import Corrupt, Latency

ENDS: Final[dict[str, Any]] = {"src": "broker-a", "dst": "broker-a-s"}
SENT: Final = bytes(100_000)


def changed(fault: Corrupt, data: bytes = SENT, *, piece: int = 1000, salt: str = "broker-a-s") -> dict[int, int]:
    """Pass bytes in pieces of this size; the changed values, by position."""
    transform = fault.open_transform(salt)
    out = b"".join(transform(data[begin : begin + piece]) for begin in range(0, len(data), piece))
    assert len(out) == len(data)
    return {at: new for at, (old, new) in enumerate(zip(data, out, strict=True)) if old != new}


def test_so_many_bytes_on_average() -> None:
    assert 70 <= len(changed(Corrupt(**ENDS, every_bytes=1000))) <= 130
    assert len(changed(Corrupt(**ENDS, every_bytes=1), bytes(500))) == 500
    assert 1 <= len(changed(Corrupt(**ENDS))) <= 30


def test_a_count_ends_it() -> None:
    assert len(changed(Corrupt(**ENDS, every_bytes=10, count=3))) == 3


def test_a_seed_and_a_node_decide_which() -> None:
    fault = Corrupt(**ENDS, every_bytes=1000, seed=7)
    assert changed(fault) == changed(fault)
    assert changed(fault) != changed(Corrupt(**ENDS, every_bytes=1000, seed=8))
    assert changed(fault) != changed(fault, salt="broker-b-s")


@hypothesis.given(piece=st.integers(1, 3000))
def test_the_same_bytes_however_they_are_cut(piece: int) -> None:
    fault = Corrupt(**ENDS, every_bytes=50)
    assert changed(fault, bytes(2500), piece=piece) == changed(fault, bytes(2500))


def test_the_log_names_the_first_of_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (at,) = changed(Corrupt(**ENDS, count=1))
    assert f"link broker-a -> broker-a-s: byte {at} is now 0x" in caplog.text
    caplog.clear()
    changed(Corrupt(**ENDS, every_bytes=10))
    assert len(caplog.records) == 20
    assert caplog.records[-1].getMessage().endswith("(the last one logged)")


def test_other_faults_have_no_state() -> None:
    assert Latency(**ENDS, millis=1).open_transform("") is None
