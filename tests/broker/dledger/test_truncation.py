"""What a truncation of a member's log leaves of queues and index."""

import errno
import itertools
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import attrs
import pytest
import trio

from rmqlab.broker.dledger.membership import LogFollower
from rmqlab.remoting.message import decode_message
from rmqlab.runtime.net.worker import each_in_thread
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import new_message
from tests.broker.dledger.test_failures import opened
from tests.broker.dledger.test_store import bodies
from tests.dledger.stores import truncate
from tests.store.failingdisk import FailingDisk


def test_truncated_entries_are_removed_from_log_and_queues(tmp_path: Path) -> None:
    """Section 6.2: a committed entry can be replaced. No queue entry is left."""
    member = opened(tmp_path)
    member.lead()
    for number in range(10):
        member.put(b"%d" % number)
    entries = member.log.entries
    truncate(entries, entries.get(6))
    LogFollower(member.store, member.log, cast("Any", Mock()), cast("Any", Mock())).follow()
    assert entries.cut_to is None
    assert member.store.max_queue_offset("orders", 0) == 7
    assert bodies(member) == [b"%d" % number for number in range(7)]
    member.store.close()


def test_the_index_of_a_log_that_begins_anew_is_deleted_in_a_thread(tmp_path: Path) -> None:
    """Its files have 400 MB each."""
    member = opened(tmp_path)
    member.lead()
    member.put(b"old", keys="key")
    index, entries, tasks = member.store.index, member.log.entries, Mock()
    assert index is not None
    (path,) = [file.file.path for file in index.files]
    truncate(entries, attrs.evolve(entries.get(0), term=entries.end_term + 1))
    LogFollower(member.store, member.log, cast("Any", Mock()), tasks).follow()
    ((run, discards), _) = tasks.start_soon.call_args
    assert (run, path.exists(), index.files) == (each_in_thread, True, [])
    trio.run(each_in_thread, discards)
    assert not path.exists()
    member.store.close()


def test_queues_that_cannot_be_opened_are_cut_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At each call that can fail, as while the process has no descriptor left.

    Until then no entry behind the cut is dispatched, and no sync from before it counts.
    """
    failed = 0
    for number in itertools.count():
        disk = FailingDisk(number=errno.EMFILE)
        member = opened(tmp_path / str(number), disk)
        member.lead()
        for at in range(20):
            member.put(b"%d" % at, queue_id=at % 2, keys="key")
        store, entries = member.store, member.log.entries
        flush = store.flush_job()
        assert flush is not None
        flush.run()
        truncate(entries, entries.get(12))
        entries.lower_commit(12)
        follower = LogFollower(store, member.log, cast("Any", Mock()), cast("Any", Mock()))
        for queue in store.queues:
            queue.files.close()  # they are mapped again when they are used, one at a time
            assert queue.files.pool is not None
            queue.files.pool.limit = 1
        disk.fails_at, disk.is_lasting = len(disk.names) + number, True
        follower.follow()
        store.flushed(flush)
        assert entries.synced_end <= entries.get(12).end
        disk.fails_at = -1
        is_incomplete = entries.cut_to is not None
        failed += is_incomplete
        store.append(new_message(b"a longer body than the one before", queue_id=1))
        member.log.server.work(member.now[0])
        assert entries.committed_index == 13
        store.dispatch()
        follower.follow()
        member.work()
        assert entries.cut_to is None
        expected = [[b"%d" % at for at in range(first, 13, 2)] for first in range(2)]
        expected[1].append(b"a longer body than the one before")
        assert [pulled(store, queue_id) for queue_id in range(2)] == expected
        store.close()
        if not is_incomplete and number > failed + 5:
            break
    assert failed > 1
    assert len([record for record in caplog.records if "cannot cut the queues" in record.message]) == failed


def pulled(store: MessageStore, queue_id: int) -> list[bytes]:
    """Return the bodies of a queue."""
    found = store.get_message("orders", queue_id, 0, 100)
    return [decode_message(record).body for record in found.buffers]
