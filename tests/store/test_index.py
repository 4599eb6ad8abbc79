"""The index by key: bytes of section 3.3, rolling, searching."""

import datetime as dt
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqlab.remoting.message import decode_message
from rmqlab.store.files.checkpoint import Checkpoint
from rmqlab.store.files.claim import CompletenessClaim
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.files.lock import AbortFile
from rmqlab.store.keyindex.index import Index
from rmqlab.store.keyindex.indexfile import IndexFile
from rmqlab.store.keyindex.indexing import key_hash
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import SOME_DAY, ManualClock, new_message

Open = Callable[..., MessageStore]


def no_claim(root: Path) -> CompletenessClaim:
    """Return that of a store without a checkpoint."""
    return CompletenessClaim(Checkpoint(root / "checkpoint"), AbortFile(root / "abort"))


@pytest.mark.parametrize(
    ("key", "hashed"),
    [("a", 97), ("polygenelubricants", 0), ("orders#é", key_hash("orders#é".encode())), ("x" * 5000, None)],
)
def test_key_hash_is_never_negative(key: str, hashed: int | None) -> None:
    """store-ha#23: abs of the Java hash; for MIN_VALUE it is 0."""
    expected = 0
    for unit in key:
        expected = (31 * expected + ord(unit)) % 2**32
    expected = abs(expected - 2**32 if expected >= 2**31 else expected) % 2**31
    assert key_hash(key.encode()) == (expected if hashed is None else hashed) == expected


def test_entry_0_is_unused_and_the_count_begins_at_1(tmp_path: Path) -> None:
    """store-ha#23: header, slots and entries, byte by byte.

    A chain leads from the newest back.
    """
    index = Index(tmp_path, slots=10, max_index=50, disk=Disk(), now_millis=ManualClock())
    index.put([(7, 1000, 5000), (17, 1000, 5000)])
    index.put([(7, 2000, 65_999)])
    raw = next(tmp_path.iterdir()).read_bytes()
    assert struct.unpack_from(">qqqqii", raw) == (5000, 65_999, 1000, 2000, 1, 4)
    assert struct.unpack_from(">10i", raw, 40) == (0, 0, 0, 0, 0, 0, 0, 3, 0, 0)
    entries = list(struct.iter_unpack(">iqii", raw[80 : 80 + 80]))
    assert entries == [(0, 0, 0, 0), (7, 1000, 0, 0), (17, 1000, 0, 1), (7, 2000, 60, 2)]
    index.close()


@pytest.mark.parametrize(
    ("header", "is_sane"),
    [
        ((1, 2, 3, 4, 5, 6), True),
        ((0, 0, 0, 0, 0, 50), True),
        ((0, 0, 0, 0, 50, 1), True),
        ((-1, 2, 3, 4, 5, 6), False),
        ((1, 2, -3, 4, 5, 6), False),
        ((1, 2, 3, 4, -5, 6), False),
        ((1, 2, 3, 4, 5, 51), False),
        ((1, 2, 3, 4, 51, 6), False),
        ((1, 2**62, 3, 4, 5, 6), False),
    ],
)
def test_a_header_that_no_index_can_have_is_known(tmp_path: Path, header: tuple[int, ...], is_sane: bool) -> None:  # noqa: FBT001
    path = tmp_path / "20260101000000000"
    IndexFile.open(path, 10, 50, Disk(), create=True).file.close()
    with path.open("r+b") as file:
        file.write(struct.pack(">qqqqii", *header))
    index = IndexFile.open(path, 10, 50, Disk(), create=False)
    assert index.is_sane is is_sane
    index.file.close()


def test_a_full_file_is_followed_by_one_that_begins_where_it_ended(tmp_path: Path) -> None:
    """Section 3.3.

    The name is the local time (store-ha#2), and a taken one is not taken twice.
    """
    index = Index(tmp_path, slots=10, max_index=4, disk=Disk(), now_millis=ManualClock())
    for number in range(5):
        index.put([(hashed, number * 10, SOME_DAY + number) for hashed in (number, number + 100)])
    local = dt.datetime.fromtimestamp(SOME_DAY / 1000).astimezone()
    names = [file.file.path.name for file in index.files]
    assert names == [f"{local:%Y%m%d%H%M%S}{millis:03d}" for millis in range(4)]
    assert [file.index_count for file in index.files] == [4, 4, 4, 2]
    assert [file.begin_physical for file in index.files] == [0, 10, 30, 40]
    assert len(index.full) == 3
    index.close()


def offsets_of(file: IndexFile, hashed: int) -> list[int]:
    found = list[int]()
    assert not list(file.search(hashed, found, limit=10, begin=0, end=10_000)), "it is short"
    return found


def test_unique_key_and_every_key_lead_to_the_message(open_store: Open) -> None:
    """store-ha#24, by put and by dispatch alike."""
    store, slave = open_store(), open_store("slave", is_slave=True)
    store.put(new_message(b"other", keys="k0"))
    wanted = store.put(new_message(b"wanted", keys="k1 k2  k3 schlüssel", unique_key="U1"))
    slave.append_raw(0, store.read_log(0, 10_000))
    slave.dispatch()
    for one in (store, slave):
        for key in ("U1", "k1", "k2", "k3", "schlüssel"):
            (found,) = one.query("orders", key, 64, 0, 2**62).buffers
            assert decode_message(found).physical_offset == wanted.physical_offset
        assert one.query("orders", "k9", 64, 0, 2**62).buffers == []
        assert one.query("other-topic", "k1", 64, 0, 2**62).buffers == []


def test_a_query_answers_the_newest_but_in_the_order_of_the_log(open_store: Open, clock: ManualClock) -> None:
    store = open_store(max_index_num=30)
    clock.step = 10_000
    results = [store.put(new_message(keys="same")) for _ in range(100)]
    offsets = [result.physical_offset for result in results]

    def found(limit: int, begin: int = 0, end: int = 2**62) -> list[int]:
        buffers = store.query("orders", "same", limit, begin, end).buffers
        return [decode_message(buffer).physical_offset for buffer in buffers]

    assert found(5) == offsets[-5:]
    assert found(1000) == offsets[-64:]  # maxMsgsNumBatch
    assert found(1000, results[40].store_timestamp, results[45].store_timestamp + 1000) == offsets[40:46]
    answer = store.query("orders", "same", 1, 0, 2**62)
    assert answer.index_last_update_timestamp == results[-1].store_timestamp
    assert answer.index_last_update_phyoffset == offsets[-1]


def test_without_an_index_nothing_is_written_or_found(open_store: Open) -> None:
    store = open_store(message_index_enable=False)
    store.put(new_message(keys="k"))
    assert store.query("orders", "k", 9, 0, 2**62).buffers == []
    assert not (store.config.store_path_root_dir / "index").exists()


@pytest.mark.parametrize("size", [40 + 4 * 10 + 20 * 2 + 7, 100_000], ids=["too short", "too long"])
def test_the_length_of_an_index_file_is_not_checked(tmp_path: Path, size: int) -> None:
    """IndexService.load maps a file of any length: no start fails."""
    index = Index(tmp_path, slots=10, max_index=50, disk=Disk(), now_millis=ManualClock())
    index.put([(7, 1000, 5000)])
    for file in index.files:
        file.file.close()
    (path,) = tmp_path.iterdir()
    with path.open("r+b") as raw:
        raw.truncate(size)
    again = Index(tmp_path, slots=10, max_index=50, disk=Disk(), now_millis=ManualClock())
    again.load(no_claim(tmp_path), crashed=False)
    assert offsets_of(again.files[0], 7) == [1000]
    again.put([(8, 2000, 6000)])
    assert offsets_of(again.files[0], 8) == [2000]
    assert path.stat().st_size == max(size, 40 + 4 * 10 + 20 * 50)


def test_a_long_chain_is_searched_in_steps(open_store: Open, clock: ManualClock) -> None:
    """A peer can put a key into millions of entries; a query must not hold up others."""
    store = open_store(max_index_num=5000, max_hash_slot_num=100)
    clock.step = 10_000
    for _ in range(40):
        store.put(new_message(keys=" ".join(["same"] * 50)))
    steps = store.search("orders", "same", 3, 0, 0)
    assert sum(1 for _ in steps) == 0  # no file is of that time
    assert store.index is not None
    began = store.index.files[0].begin_timestamp
    assert sum(1 for _ in store.search("orders", "same", 3, began, began)) > 50
    assert len(store.query("orders", "same", 3, 0, 2**62).buffers) == 3


def test_a_key_longer_than_all_properties_is_not_searched(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash took seconds."""
    store = open_store(max_index_num=5000, max_hash_slot_num=100)
    store.put(new_message(keys="k"))
    hashed = list[bytes]()

    def key_hash(key: bytes) -> int:
        hashed.append(key)
        return 0

    monkeypatch.setattr("rmqlab.store.keysearch.key_hash", key_hash)
    assert store.query("orders", "k" * 2**16, 3, 0, 2**62).buffers == []
    assert hashed == []
    store.query("orders", "k" * 32_767, 3, 0, 2**62)
    assert hashed == [b"orders#" + b"k" * 32_767]


def test_a_search_ends_at_a_file_that_is_dropped_meanwhile(open_store: Open, clock: ManualClock) -> None:
    store = open_store(max_index_num=5000, max_hash_slot_num=100)
    clock.step = 10_000
    for _ in range(40):
        store.put(new_message(keys=" ".join(["same"] * 50)))
    assert store.index is not None
    began = store.index.files[0].begin_timestamp
    steps = store.search("orders", "same", 3, began, began)
    next(steps)
    for file in store.index.detach_all():
        file.discard()
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value.buffers == []


def test_files_that_were_named_by_a_clock_that_jumped_back_keep_their_order(tmp_path: Path) -> None:
    """Otherwise the newest file is not the last one, and expired files stay."""
    clock = ManualClock()
    index = Index(tmp_path, slots=10, max_index=4, disk=Disk(), now_millis=clock)
    for number in range(4):
        index.put([(hashed, (number + 1) * 10, SOME_DAY + number) for hashed in (number, number + 100)])
        clock.now -= 3_600_000
    before = [file.file.path for file in index.files]
    assert before == sorted(before, reverse=True)
    index.close()
    again = Index(tmp_path, slots=10, max_index=4, disk=Disk(), now_millis=clock)
    assert again.load(no_claim(tmp_path), crashed=False) == 40
    assert [file.file.path for file in again.files] == before
    assert again.end_physical == 40
    assert run_calls(again.deletion_of_expired(25)) == 1
    again.close()


def test_the_newest_entries_are_known_to_be_lost_also_if_their_file_has_an_older_name(tmp_path: Path) -> None:
    """Otherwise no start of the store would enter them again."""
    clock = ManualClock()
    index = Index(tmp_path, slots=10, max_index=3, disk=Disk(), now_millis=clock)
    for number in range(2):
        index.put([(hashed, (number + 1) * 10, SOME_DAY + number) for hashed in (number, number + 100)])
        clock.now -= 3_600_000
    newest = index.files[-1].file.path
    index.close()
    newest.write_bytes(b"no head" * newest.stat().st_size)
    again = Index(tmp_path, slots=10, max_index=3, disk=Disk(), now_millis=clock)
    assert again.load(no_claim(tmp_path), crashed=False) == again.end_physical == 10
    assert again.is_any_lost
    again.close()
