"""Appends that a failing disk left half done: none of their entries returns."""

import errno
import random
from pathlib import Path

import attrs
import pytest

from rmqlab.dledger.codes import DLedgerError
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Member
from rmqlab.dledger.server import Server
from rmqlab.store.files.diskcalls import run_calls
from tests.dledger.volatiledisk import VolatileDisk

DATA_FILE = 2048
INDEX_FILE = 4 * 32
BODY = b"body" * 50


@attrs.define(eq=False)
class WritingBack(VolatileDisk):
    """A full disk refuses blocks of an index file.

    At that moment the system writes all data back by itself.
    """

    is_full: bool = False

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        path = self._paths[descriptor]
        if self.is_full and path.parent.name == "index":
            for data in (path.parent.parent / "data").iterdir():
                self._synced[data] = data.read_bytes()
            raise OSError(errno.ENOSPC, "no space left")
        VolatileDisk.allocate(self, descriptor, offset, length)


def opened(root: Path, disk: WritingBack) -> EntryStore:
    return EntryStore.open(root, DATA_FILE, INDEX_FILE, disk)


@pytest.mark.parametrize("before", [4, 8])
def test_a_refused_entry_does_not_return_after_a_power_loss(tmp_path: Path, before: int) -> None:
    """Its sender has got a refusal. In the second case it begins a data file."""
    disk = WritingBack(random.Random(1), keeps_unsynced=False)
    store = opened(tmp_path, disk)
    for _ in range(before):
        store.append(1, BODY)
    store.flush()
    disk.is_full = True
    with pytest.raises(OSError, match="no space left"):
        store.append(1, BODY)
    run_calls(store.completion_of_cut())
    store.unmap()
    disk.lose_power(tmp_path)
    again = opened(tmp_path, disk)
    assert again.end_index == before - 1
    again.unmap()


def test_a_leader_syncs_the_undoing_of_an_append_at_once(tmp_path: Path) -> None:
    """In a thread. Until then it appends nothing."""
    disk = WritingBack(random.Random(1))
    settings = GroupSettings(group="g", self_id="n0", peers={"n0": "host:1"})
    server: Server[str, str] = Server.of(Member(settings, lambda _ballot: None), opened(tmp_path, disk), lambda _: 0)
    now = 0
    while not server.member.is_leader:
        now += 1000
        server.work(now)
        finish(server, now)
    server.append([BODY] * 4, "stored", now)
    disk.is_full = True
    with pytest.raises(OSError, match="no space left"):
        server.append([BODY], "refused", now)
    disk.is_full = False
    with pytest.raises(DLedgerError, match="has not synced"):
        server.append([BODY], "too early", now)
    finish(server, now)
    assert server.append([BODY], "stored", now)[0].index == 4
    server.store.unmap()


def finish(server: Server[str, str], now: int) -> None:
    """Make the slow calls of a member that have begun."""
    for work in server.disk_work:
        for calls in work.take_started():
            run_calls(calls)
    server.resume(now)
