"""What a truncation of a member's log leaves of queues and index."""

from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import attrs
import trio

from rmqlab.broker.dledger.membership import LogFollower
from rmqlab.runtime.net.worker import each_in_thread
from tests.broker.dledger.test_failures import opened
from tests.broker.dledger.test_store import bodies
from tests.dledger.stores import truncate


def test_truncated_entries_are_removed_from_log_and_queues(tmp_path: Path) -> None:
    """Section 6.2: a committed entry can be replaced. No queue entry is left."""
    member = opened(tmp_path)
    member.lead()
    for number in range(10):
        member.put(b"%d" % number)
    entries = member.log.entries
    truncate(entries, entries.get(6))
    LogFollower(member.store, member.log, cast("Any", Mock()), cast("Any", Mock())).follow()
    assert entries.take_cut() is None
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
