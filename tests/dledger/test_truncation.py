"""Truncations whose disk fails, or loses power after them."""

import contextlib
import itertools
import random
from pathlib import Path

import attrs
import pytest

from rmqlab.dledger import keyvalues
from rmqlab.dledger.codes import DLedgerError, PushType
from rmqlab.dledger.diskwork import RETRY_MS
from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.follower import Follower
from rmqlab.store.files.diskcalls import run_calls
from tests.dledger.stores import truncate
from tests.dledger.test_replication import chain, codes, finish_disk_work, new_follower, push
from tests.dledger.volatiledisk import SECTOR, VolatileDisk
from tests.store.failingdisk import FailingDisk

DATA_FILE = 2048
INDEX_FILE = 16 * 32
BODY = bytes(80)
"""Four entries are a sector."""


def new_store(root: Path, disk: FailingDisk | VolatileDisk) -> EntryStore:
    store = EntryStore.open(root, DATA_FILE, INDEX_FILE, disk)
    for _ in range(20):
        store.append(1, BODY)
    return store


@pytest.mark.parametrize(
    ("index", "is_own"), [(0, True), (5, True), (15, True), (16, True), (19, True), (0, False), (15, False)]
)
def test_a_truncation_that_fails_leaves_a_log_that_goes_on(tmp_path: Path, index: int, *, is_own: bool) -> None:
    """At each call that can fail: the log has no entry that was cut.

    Another entry than an own one begins a file.
    """
    for number in itertools.count():
        disk = FailingDisk()
        store = new_store(tmp_path / str(number), disk)
        entry = store.get(index) if is_own else attrs.evolve(store.get(index), term=2, body=b"other")
        disk.fails_at = len(disk.names) + number
        with contextlib.suppress(OSError):
            truncate(store, entry)
        assert store.end_index == index or (store.end_index == -1 and not is_own)
        assert store.end_index == -1 or store.get(store.end_index).end == store.data.max_offset
        if len(disk.names) <= disk.fails_at:
            break
        truncate(store, entry)
        assert store.append(2, BODY) == following(entry)
        store.unmap()
        again = EntryStore.open(tmp_path / str(number), DATA_FILE, INDEX_FILE)
        assert [again.get(at) for at in (index, index + 1)] == [entry, following(entry)]
        again.unmap()


def following(before: Entry) -> Entry:
    """The entry that a leader of term 2 appends behind another one."""
    is_first = before.end % DATA_FILE + 48 + len(BODY) + 8 > DATA_FILE
    pos = before.end + DATA_FILE - before.end % DATA_FILE if is_first else before.end
    return Entry(index=before.index + 1, term=2, pos=pos, body=BODY)


def test_entries_that_were_cut_do_not_return_after_a_power_loss(tmp_path: Path) -> None:
    """One of their size follows. Its sector is written, those behind it are not."""
    disk = VolatileDisk(random.Random(1), keeps_unsynced=False)
    store = new_store(tmp_path, disk)
    store.flush()
    truncate(store, store.get(2))
    entry = store.append(1, bytes([1]) * len(BODY))
    assert entry.end == SECTOR
    path = store.data.files[0].path
    written = path.read_bytes()
    store.unmap()
    disk.lose_power(tmp_path)
    path.write_bytes(written[:SECTOR] + path.read_bytes()[SECTOR:])
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    assert store.end_index == 3
    assert store.get(3) == entry


def test_entries_behind_a_damaged_one_do_not_return_after_a_power_loss(tmp_path: Path) -> None:
    """As those of a truncation, once a start has dropped them."""
    disk = VolatileDisk(random.Random(1), keeps_unsynced=False)
    store = new_store(tmp_path, disk)
    store.flush()
    damaged, path = store.get(3), store.data.files[0].path
    store.data.files[0].map[damaged.pos : damaged.pos + 48] = bytes(48)
    store.data.files[0].sync()
    store.unmap()
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE, disk)
    entry = store.append(1, bytes([1]) * len(BODY))
    assert entry.end == damaged.end == SECTOR
    written = path.read_bytes()
    store.unmap()
    disk.lose_power(tmp_path)
    path.write_bytes(written[:SECTOR] + path.read_bytes()[SECTOR:])
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    assert (store.end_index, store.get(3)) == (3, entry)


def failing_follower(root: Path) -> tuple[Follower[str], FailingDisk]:
    """Return a follower with a TRUNCATE at the first of three entries.

    All calls of its disk fail from now on.
    """
    disk = FailingDisk()
    follower = new_follower(root, 3, disk)
    follower.handle(push(PushType.TRUNCATE, follower.store.get(0)), "truncate", 0)
    disk.fails_at, disk.is_lasting = len(disk.names), True
    return follower, disk


def test_nothing_is_appended_before_a_cut_is_on_disk(tmp_path: Path) -> None:
    """In any role: a power loss may take the zeros, and bring cut entries back."""
    follower, disk = failing_follower(tmp_path)
    finish_disk_work(follower)
    store = follower.store
    (following,) = chain(1, store.get(0).end, b"new")
    follower.handle(push(PushType.APPEND, following), "append", 0)
    assert codes(follower) == {"truncate": 406, "append": 406}
    with pytest.raises(DLedgerError, match="has not synced the log's cut"):
        store.append(3, b"as leader")
    assert (store.end_index, follower.member.end_index) == (0, 0)
    disk.fails_at = -1
    work = follower.truncations
    work.work(0)
    assert work.wake_at == RETRY_MS
    assert follower.truncations.error
    work.work(RETRY_MS)
    finish_disk_work(follower)
    follower.handle(push(PushType.APPEND, following), "again", 0)
    assert codes(follower) == {"again": 200}
    assert not follower.truncations.error


def test_the_zeros_of_a_failed_sync_are_written_again(tmp_path: Path) -> None:
    """The system may count pages of a failed sync as clean."""
    follower, disk = failing_follower(tmp_path)
    finish_disk_work(follower)
    disk.fails_at = -1
    file, end = follower.store.data.files[0], follower.store.get(0).end
    file.map[end : end + 40] = b"x" * 40
    run_calls(follower.store.completion_of_cut())
    assert not any(file.map[end : end + 40])


def test_requests_during_a_truncation(tmp_path: Path) -> None:
    """They get 421, and the leader compares again. An APPEND waits."""
    follower = new_follower(tmp_path, 3)
    store = follower.store
    first = store.get(0)
    (following,) = chain(1, first.end, b"new")
    follower.handle(push(PushType.TRUNCATE, first), "truncate", 0)
    for push_type in (PushType.COMPARE, PushType.TRUNCATE, PushType.COMMIT):
        follower.handle(push(push_type, first), push_type.name, 0)
    follower.handle(push(PushType.APPEND, following), "append", 0)
    assert codes(follower) == {"COMPARE": 421, "TRUNCATE": 421, "COMMIT": 421}
    assert store.end_index == 0
    finish_disk_work(follower)
    assert codes(follower) == {"truncate": 200, "append": 200}
    assert store.get(1) == following


def test_a_member_that_stops_following_does_not_begin_with_the_leaders_entry(tmp_path: Path) -> None:
    follower = new_follower(tmp_path, 3)
    other = attrs.evolve(follower.store.get(0), term=2)
    follower.handle(push(PushType.TRUNCATE, other), "truncate", 0)
    follower.member.become_candidate(3)
    finish_disk_work(follower)
    assert codes(follower) == {"truncate": 406}
    assert follower.store.end_index == -1


def test_wrong_entries_before_the_leaders_first_one_are_dropped(tmp_path: Path) -> None:
    """The leader has deleted its own: nothing shows whether they are equal.

    DLedger keeps them as committed.
    """
    follower = new_follower(tmp_path)
    store = follower.store
    while len(store.data.files) < 2:
        store.append(1, b"uncommitted")
    first = attrs.evolve(store.get(store.end_index), term=2)
    follower.handle(push(PushType.TRUNCATE, first, commit=first.index), "truncate", 0)
    finish_disk_work(follower)
    assert codes(follower) == {"truncate": 200}
    assert (store.begin_index, store.end_index, store.committed_index) == (first.index,) * 3
    assert store.begin_position == first.pos
    store.close()
    again = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    assert (again.begin_index, again.get(first.index)) == (first.index, first)


def test_a_lowered_commit_is_on_disk(tmp_path: Path) -> None:
    """Entries that a leader appends behind it are not committed after a kill."""
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    for _ in range(5):
        store.append(1, bytes(10))
    store.commit(4)
    store.save_checkpoint()
    store.cut_at(store.get(1))
    store.lower_commit(1)
    run_calls(store.completion_of_cut())
    for _ in range(2):
        store.append(2, bytes(10))
    store.unmap()
    assert EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE).committed_index == 1


def test_a_truncation_that_an_internal_error_ends_is_dropped_and_made_again(tmp_path: Path) -> None:
    """Its request does not stay open, and the log appends nothing meanwhile."""
    follower = new_follower(tmp_path, 3)
    follower.handle(push(PushType.TRUNCATE, follower.store.get(0)), "truncate", 0)
    (calls,) = follower.truncations.take_started()
    next(calls)
    calls.close()
    follower.truncations.fail(ValueError("mmap closed or invalid"))
    assert (codes(follower), follower.take_dropped()) == ({}, ["truncate"])
    work = follower.truncations
    work.work(0)
    assert work.wake_at == RETRY_MS
    work.work(RETRY_MS)
    finish_disk_work(follower)
    assert not follower.store.cut.is_pending
    assert not work.error


def durable_checkpoint(root: Path, disk: VolatileDisk, committed: int) -> None:
    """Let a power loss bring this committed index back."""
    keyvalues.save(disk, root / "checkpoint", {"committedIndex": committed, "endIndex": committed}, is_synced=True)


def committed_after_power_loss(store: EntryStore, disk: VolatileDisk) -> int:
    """Append two entries of another leader, sync them, and lose power.

    Return the committed index.
    """
    for _ in range(2):
        store.append(2, bytes(10))
    store.flush()
    store.unmap()
    disk.lose_power(store.directory)
    return EntryStore.open(store.directory, DATA_FILE, INDEX_FILE, disk).committed_index


def test_a_lowered_commit_outlives_a_power_loss(tmp_path: Path) -> None:
    disk = VolatileDisk(random.Random(1), keeps_unsynced=False)
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE, disk)
    for _ in range(5):
        store.append(1, bytes(10))
    store.commit(4)
    durable_checkpoint(tmp_path, disk, 4)
    store.cut_at(store.get(1))
    store.lower_commit(1)
    run_calls(store.completion_of_cut())
    assert committed_after_power_loss(store, disk) == 1


def test_a_commit_that_a_start_lowers_outlives_a_power_loss(tmp_path: Path) -> None:
    """The first loss takes entries that were committed, but not synced."""
    disk = VolatileDisk(random.Random(1), keeps_unsynced=False)
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE, disk)
    for _ in range(2):
        store.append(1, bytes(10))
    store.flush()
    store.unmap()
    durable_checkpoint(tmp_path, disk, 4)
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE, disk)
    assert committed_after_power_loss(store, disk) == 1
