"""Verification of received bytes as a log."""

import contextlib
import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmqlab.remoting.message import BLANK_MAGIC
from rmqlab.store.files.disk import StoreCorrupt
from rmqlab.store.log.verify import LogVerifier
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config
from rmqlab.store.truncate import truncate

Open = Callable[..., MessageStore]


def filled(store: MessageStore, count: int = 60, size: int = 300) -> MessageStore:
    for number in range(count):
        store.put(
            new_message(bytes([number % 251]) * size, queue_id=number % 3, tags=f"T{number % 5}", keys=f"k{number}")
        )
    return store


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 30_000), min_size=1, max_size=12))
def test_a_good_log_is_good_wherever_it_is_cut(tmp_path_factory: pytest.TempPathFactory, pieces: list[int]) -> None:
    """Files and their blanks included.

    Verification always begins at the start of a record or of a file.
    """
    root = tmp_path_factory.mktemp("pieces")
    master = filled(MessageStore.open(small_config(root / "master"), now_millis=ManualClock()), 300)
    slave = MessageStore.open(small_config(root / "slave"), now_millis=ManualClock(), is_slave=True)
    verifier, at, step = LogVerifier(slave.log, 0), 0, 0
    while at < master.max_commit_log_offset:
        piece = master.read_log(at, pieces[step % len(pieces)])
        slave.append_raw(at, piece)
        at, step = at + len(piece), step + 1
        assert verifier.find_fault() is None
        slave.dispatch()
        assert verifier.verified == slave.dispatched_offset
    assert verifier.verified == at
    slave.close()
    master.close()


@pytest.mark.parametrize(
    "position",
    [
        pytest.param(1, id="size"),
        pytest.param(4, id="magic"),
        pytest.param(9, id="checksum"),
        pytest.param(30, id="offset of the record"),
        pytest.param(85, id="body length"),
        pytest.param(88, id="first byte of the body"),
        pytest.param(387, id="last byte of the body"),
        pytest.param(388, id="topic length"),
    ],
)
def test_the_first_invalid_record_is_found(open_store: Open, position: int) -> None:
    store = filled(open_store())
    second = store.queue_entries("orders", 1, 0, 1)[0][0]
    store.log.files.files[0].map[second + position] ^= 0x20
    verifier = LogVerifier(store.log, 0)
    assert verifier.find_fault() == second
    assert verifier.verified == second


@pytest.mark.parametrize("position", [3, 7], ids=["size", "magic"])
def test_a_blank_that_does_not_fill_its_file_is_found(open_store: Open, position: int) -> None:
    store = filled(open_store(), 300)
    first = store.log.files.files[0]
    blank_at = 0
    while (head := struct.unpack_from(">iI", first.map, blank_at))[1] != BLANK_MAGIC & 0xFFFFFFFF:
        blank_at += head[0]
    first.map[blank_at + position] ^= 1
    assert LogVerifier(store.log, 0).find_fault() == blank_at


def test_a_log_that_begins_late_is_looked_at_from_there(open_store: Open) -> None:
    store = filled(open_store(), 300)
    store.log.files.drop_first()
    verifier = LogVerifier(store.log, 0)
    assert verifier.find_fault() is None
    assert verifier.verified == store.max_commit_log_offset


@example(data=bytes(20) + b"\1", at=8)
@example(data=b"\0", at=412 * 3 + 391)  # in a topic, which no checksum covers
@settings(max_examples=60, deadline=None)
@given(data=st.binary(min_size=1, max_size=400), at=st.integers(0, 20_000))
def test_no_bytes_whatever_are_too_much_for_it(tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int) -> None:
    """Also for dispatch: garbage over a good log is skipped or ends it without errors."""
    root = tmp_path_factory.mktemp("garbage")
    source = filled(MessageStore.open(small_config(root / "master"), now_millis=ManualClock()))
    log = bytearray(source.read_log(0, 2**20))
    at = min(at, len(log) - len(data))
    log[at : at + len(data)] = data
    slave = MessageStore.open(small_config(root / "slave"), now_millis=ManualClock(), is_slave=True)
    with contextlib.suppress(StoreCorrupt):  # refused whole: the first record states a place in another file
        slave.append_raw(0, bytes(log))
    fault = LogVerifier(slave.log, 0).find_fault()
    if fault is not None:
        assert fault <= at + len(data)
        truncate(slave, fault)
        assert LogVerifier(slave.log, 0).find_fault() is None
    slave.dispatch()
    slave.close()
    source.close()
