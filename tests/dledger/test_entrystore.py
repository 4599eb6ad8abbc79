"""The entry store against files and recoveries of a real DLedger, and properties."""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqlab.dledger.codes import DLedgerCode, DLedgerError
from rmqlab.dledger.entry import BODY_OFFSET, Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.store.files.disk import Disk, StoreCorrupt
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.files.filequeue import FileQueue
from tests.dledger.stores import truncate, unmapped_at_end

Recorded = Callable[[str], list[dict[str, Any]]]

DATA_FILE = 1024
INDEX_FILE = 16 * 32


def body_of(number: int) -> bytes:
    return bytes([number + 1]) * (1 + number * 37 % 200)


def open_small(directory: Path, disk: Disk | None = None) -> EntryStore:
    return EntryStore.open(directory, DATA_FILE, INDEX_FILE, disk)


def with_golden_entries(directory: Path) -> EntryStore:
    """A store with the recorded leader's 40 entries; entry 33 is committed."""
    store = open_small(directory)
    for number in range(40):
        store.append(1 + number // 10, body_of(number))
    store.commit(33)
    return store


def files_below(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def digest(files: FileQueue) -> str:
    end = files.max_offset
    parts = [path.read_bytes()[: max(0, end - int(path.name))] for path in sorted(files.directory.glob("*"))]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def state_of(store: EntryStore) -> dict[str, Any]:
    """The members that a recording has, too."""
    return {
        "begin": store.begin_index,
        "end": store.end_index,
        "end_term": store.end_term,
        "committed": store.committed_index,
        "committed_pos": store.committed_end,
        "data_end": store.data.max_offset,
        "index_end": store.index.max_offset,
        "data_digest": digest(store.data),
        "index_digest": digest(store.index),
    }


def apply(damage: list[Any], directory: Path) -> None:
    for name, at, length, value in damage:
        path = directory / name
        if not length:
            path.unlink()
            continue
        raw = bytearray(path.read_bytes())
        raw[at : at + length] = bytes([value]) * min(length, len(raw) - at)
        path.write_bytes(raw)


# ---- a real DLedger ----


def test_a_store_of_the_same_entries_has_the_same_bytes(tmp_path: Path, golden_store: Path) -> None:
    """dledger#1 to #4, #6"""
    with_golden_entries(tmp_path / "ours").close()
    theirs = files_below(golden_store)
    del theirs["currterm"]
    assert files_below(tmp_path / "ours") == theirs


def test_every_entry_of_a_real_store_is_read(golden_store: Path) -> None:
    """dledger#2, #4"""
    store = open_small(golden_store)
    assert [store.get(number).body for number in range(40)] == [body_of(number) for number in range(40)]
    assert [store.get(number).term for number in (0, 9, 10, 39)] == [1, 1, 2, 4]


def test_recovery_finds_what_a_real_one_finds(golden_store: Path, tmp_path: Path, recorded: Recorded) -> None:
    """dledger#48 to #50"""
    original = files_below(golden_store)
    for number, row in enumerate(recorded("recoveries.jsonl")):
        directory = tmp_path / str(number)
        for name, raw in original.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(raw)
        apply(row["damage"], directory)
        store = open_small(directory)
        found = {"damage": row["damage"], **state_of(store)}
        if row["end"] >= 0 and row["data_end"] % DATA_FILE == 0:  # ours drops a blank at the end
            assert store.data.max_offset == store.get(store.end_index).end
            found["data_end"], found["data_digest"] = row["data_end"], row["data_digest"]
        assert found == row


def test_truncate_leaves_what_a_real_one_leaves(tmp_path: Path, recorded: Recorded) -> None:
    """dledger#46"""
    for number, row in enumerate(recorded("truncates.jsonl")):
        store = with_golden_entries(tmp_path / str(number))
        if row["own"]:
            entry = store.get(row["index"])
        else:
            entry = Entry(index=row["index"], term=row["term"], pos=row["pos"], body=b"other")
        truncate(store, entry)
        found = state_of(store)
        if not row["own"]:  # ours also drops what is before the first entry of its leader
            assert store.begin_index == entry.index
            for key in ("begin", "data_digest", "index_digest"):
                del found[key]
        assert found == {key: row[key] for key in found}, row
        assert store.get(entry.index) == entry


def test_entries_that_were_cut_do_not_return_after_a_kill(tmp_path: Path) -> None:
    """dledger#46: a leader that goes on behind them would leave two different logs."""
    store = with_golden_entries(tmp_path)
    truncate(store, store.get(30))
    assert open_small(tmp_path).end_index == 30


# ---- appends and reads ----


def test_positions_are_known_before_the_body_is_stored(tmp_path: Path) -> None:
    """dledger#5: a broker writes the position behind the header into its record."""
    store = open_small(tmp_path)
    store.append(1, bytes(100))
    entry = store.append(1, bytes(8), lambda position, _: (position + BODY_OFFSET).to_bytes(8, "big"))
    assert int.from_bytes(store.get(1).body, "big") == entry.pos + BODY_OFFSET == 148 + 48


@pytest.mark.parametrize(("size", "is_next_file"), [(DATA_FILE - 8, False), (DATA_FILE - 7, True)])
def test_an_entry_leaves_eight_bytes(tmp_path: Path, size: int, *, is_next_file: bool) -> None:
    """dledger#3"""
    store = open_small(tmp_path)
    store.append(1, bytes(100))
    assert (store.append(1, bytes(size - 148 - 48)).pos == DATA_FILE) is is_next_file


def test_errors_have_the_codes_of_a_real_store(tmp_path: Path) -> None:
    """dledger#45"""
    store = with_golden_entries(tmp_path)
    run_calls(store.deletion_of_first_file())

    def code_of(call: Callable[[], object]) -> DLedgerCode:
        with pytest.raises(DLedgerError) as caught:
            call()
        return caught.value.code

    following = Entry(index=40, term=4, pos=store.data.max_offset, body=b"x")
    assert code_of(lambda: store.get(-1)) is DLedgerCode.INDEX_OUT_OF_RANGE
    assert code_of(lambda: store.get(40)) is DLedgerCode.INDEX_OUT_OF_RANGE
    assert code_of(lambda: store.get(0)) is DLedgerCode.INDEX_LESS_THAN_LOCAL_BEGIN
    assert code_of(lambda: store.append(4, bytes(DATA_FILE))) is DLedgerCode.DISK_ERROR
    assert code_of(lambda: store.append_entry(attrs.evolve(following, index=41))) is DLedgerCode.INCONSISTENT_INDEX
    assert code_of(lambda: store.append_entry(attrs.evolve(following, pos=1))) is DLedgerCode.DISK_ERROR
    assert (store.begin_index, store.end_index) == (7, 39)
    store.append_entry(following)
    assert store.get(40) == following


def test_an_empty_store_has_no_entry(tmp_path: Path) -> None:
    """dledger#45"""
    store = open_small(tmp_path)
    with pytest.raises(DLedgerError) as caught:
        store.get(0)
    assert caught.value.code is DLedgerCode.INDEX_OUT_OF_RANGE
    assert (store.begin_index, store.end_index, store.end_term, store.committed_index) == (-1, -1, -1, -1)


def test_a_file_of_another_length_or_a_gap_prevents_the_start(tmp_path: Path) -> None:
    """dledger#1"""
    with_golden_entries(tmp_path).close()
    path = tmp_path / "data" / f"{2 * DATA_FILE:020}"
    path.write_bytes(b"short")
    with pytest.raises(StoreCorrupt, match=r"5 bytes, expected 1024"):
        open_small(tmp_path)
    path.unlink()
    with pytest.raises(StoreCorrupt, match=f"does not follow {DATA_FILE:020}: files between them are missing"):
        open_small(tmp_path)


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_small(tmp_path)
    store.append(1, b"first")
    before = state_of(store)

    def full(_file: object, _raw: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(store.index.files[0]), "append", full)
    with pytest.raises(OSError, match="No space"):
        store.append(1, b"second")
    assert state_of(store) == before


# ---- committed index ----


@pytest.mark.parametrize(
    ("number", "committed"), [(-1, 20), (20, 20), (19, 20), (21, 21), (39, 39), (1000, 39), (3, 20)]
)
def test_the_committed_index_only_rises_and_stays_in_the_log(tmp_path: Path, number: int, committed: int) -> None:
    """dledger#47"""
    store = open_small(tmp_path)
    for each in range(40):
        store.append(1, body_of(each))
    assert store.commit(20)
    assert store.commit(number) is (committed != 20)
    assert (store.committed_index, store.committed_end) == (committed, store.get(committed).end)


def test_an_empty_log_commits_nothing(tmp_path: Path) -> None:
    """dledger#47"""
    assert not open_small(tmp_path).commit(5)


def test_an_unreadable_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("committedIndex=many\n")
    with pytest.raises(StoreCorrupt, match="committedIndex=many, expected a number"):
        open_small(tmp_path)


def test_a_checkpoint_keeps_its_former_content(tmp_path: Path) -> None:
    """dledger#6"""
    store = with_golden_entries(tmp_path)
    store.save_checkpoint()
    store.commit(35)
    store.save_checkpoint()
    assert (tmp_path / "checkpoint").read_text() == "committedIndex=35\nendIndex=39\n"
    assert (tmp_path / "checkpoint.bak").read_text() == "committedIndex=33\nendIndex=39\n"
    assert not (tmp_path / "checkpoint.tmp").exists()


def test_a_flush_syncs_what_was_written_since(tmp_path: Path) -> None:
    """dledger#51"""
    synced: list[int] = []

    class Counting(Disk):
        def sync(self, descriptor: int) -> None:
            synced.append(descriptor)

    store = open_small(tmp_path, Counting())
    store.append(1, b"first")
    store.flush()
    store.flush()
    assert len(synced) == 2  # one data file, one index file


# ---- properties ----

bodies = st.lists(st.binary(max_size=300), min_size=1, max_size=40)
some_bytes = st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=40)


@given(bodies=some_bytes, cut_at=st.integers(0, 3000), at_index=st.booleans())
@settings(max_examples=60)
def test_a_torn_tail_leaves_a_prefix(bodies: list[bytes], cut_at: int, *, at_index: bool) -> None:
    """dledger#48, #49: entries before the lost bytes are read byte for byte.

    One more entry is kept if its header is whole: no checksum covers its body. Of an empty one at position 0 its first
    bytes suffice, as in DLedger: the others may be zeros.
    """
    with tempfile.TemporaryDirectory() as name, unmapped_at_end():
        store = open_small(Path(name))
        entries = [store.append(1 + number // 7, body) for number, body in enumerate(bodies)]
        store.close()
        files = store.index if at_index else store.data
        end = max(0, files.max_offset - cut_at)
        for file in files.files:
            raw = file.path.read_bytes()
            kept_bytes = raw[: max(0, end - file.first_offset)]
            file.path.write_bytes(kept_bytes + bytes(len(raw) - len(kept_bytes)))
        again = open_small(Path(name))
        kept = [again.get(number) for number in range(again.end_index + 1)]
        whole = entries if at_index else [each for each in entries if each.end <= end]
        assert kept[: len(whole)] == whole
        assert [each.unit for each in kept[len(whole) :]] in ([], [each.unit for each in entries[len(whole) :][:1]])
        following = again.append(100, b"next")
        assert open_small(Path(name)).get(len(kept)) == following


@given(bodies=bodies, keep=st.integers(0, 39), is_own=st.booleans(), more=bodies)
@settings(max_examples=60)
def test_a_follower_that_is_cut_ends_with_the_leaders_bytes(
    bodies: list[bytes], keep: int, more: list[bytes], *, is_own: bool
) -> None:
    """dledger#46: files are equal up to the end, before and after a start.

    The leader cuts it behind the last equal entry, or at its own first one.
    """
    with tempfile.TemporaryDirectory() as name, unmapped_at_end():
        leader, follower = open_small(Path(name) / "leader"), open_small(Path(name) / "follower")
        for body in bodies:
            follower.append(1, body)
        common = min(keep, len(bodies) - is_own)
        for body in bodies[: common + is_own]:
            leader.append(1, body)
        for body in [b"new", *more]:
            leader.append(3, body)
        truncate(follower, leader.get(max(0, common - (not is_own))))
        for number in range(follower.end_index + 1, leader.end_index + 1):
            follower.append_entry(leader.get(number))
        assert state_of(follower) == state_of(leader)
        follower.close()
        again = open_small(Path(name) / "follower")
        expected = [leader.get(number) for number in range(leader.end_index + 1)]
        assert [again.get(number) for number in range(leader.end_index + 1)] == expected


@pytest.mark.parametrize("damage", [bytes(48), b"\xff" * 48])
def test_entries_behind_a_damaged_one_do_not_return_behind_a_new_one(tmp_path: Path, damage: bytes) -> None:
    """DLedger finds them at its next start, if the sizes are equal."""
    store = open_small(tmp_path)
    for _ in range(5):
        store.append(1, bytes(50))
    position, path = store.get(2).pos, store.data.files[0].path
    store.close()
    with path.open("r+b") as file:
        file.seek(position)
        file.write(damage)
    store = open_small(tmp_path)
    assert store.end_index == 1
    store.append(1, bytes(50))
    store.close()
    assert open_small(tmp_path).end_index == 2


def four_files(root: Path) -> list[Path]:
    """Return the files of a new log that was closed."""
    store = open_small(root)
    while len(store.data.files) < 4:
        store.append(1, bytes(100))
    paths = [file.path for file in store.data.files]
    store.close()
    return paths


def test_a_start_that_would_lose_more_than_a_file_fails(tmp_path: Path) -> None:
    """DLedger ends its process, so that an operator can repair the file."""
    paths = four_files(tmp_path)
    contents = [path.read_bytes() for path in paths]
    for number, is_lost in ((1, True), (2, False)):
        paths[number].write_bytes(contents[number][:148] + b"\xff" + contents[number][149:])
        damaged = [path.read_bytes() for path in paths]
        if is_lost:
            with pytest.raises(StoreCorrupt, match=f"{paths[1]} has no valid entry at offset {DATA_FILE + 148}, "):
                open_small(tmp_path)
            assert [path.read_bytes() for path in paths] == damaged
        else:
            assert open_small(tmp_path).data.max_offset == 2 * DATA_FILE + 148
        paths[number].write_bytes(contents[number])


def test_a_start_drops_files_of_unsynced_zeros(tmp_path: Path) -> None:
    paths = four_files(tmp_path)
    paths[0].write_bytes(paths[0].read_bytes()[:148].ljust(DATA_FILE, b"\0"))
    for path in paths[1:]:
        path.write_bytes(bytes(DATA_FILE))
    assert open_small(tmp_path).end_index == 0


@pytest.mark.parametrize(("files", "begin"), [(1, -1), (2, -1), (3, -1), (4, 0)])
def test_a_log_that_begins_within_a_file_is_lost_at_a_start(tmp_path: Path, files: int, begin: int) -> None:
    """DLedger keeps the position in memory only; with three files it ends its process."""
    store = open_small(tmp_path)
    truncate(store, Entry(index=9, term=1, pos=300, body=bytes(100)))
    assert store.begin_index == 9
    while len(store.data.files) < files:
        store.append(1, bytes(100))
    end = store.end_index if files == 4 else -1
    store.close()
    store = open_small(tmp_path)
    assert (store.begin_index, store.end_index) == (begin, end)
    store.close()
