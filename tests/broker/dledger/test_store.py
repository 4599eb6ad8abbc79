"""The store of a member: puts, restarts, and readers of its files.

The group has one member, so it needs no network.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from rmqlab.broker.dledger.entrylog import EntryLog, set_physical_offset
from rmqlab.broker.dledger.groupstore import group_log
from rmqlab.broker.dledger.putter import decide
from rmqlab.dledger.bodies import AppendEntryRequest, AppendEntryResponse
from rmqlab.dledger.codes import DLedgerRequestCode
from rmqlab.dledger.group import GroupSettings
from rmqlab.pipeline.stores.commitlogs import find_logs, log_files, segments
from rmqlab.remoting.batch import Batch, BatchItem
from rmqlab.store.files.disk import Disk, StoreError
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.log.loglayout import log_directory
from rmqlab.store.log.readableend import EVERYTHING, readable_end
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.compare import LogImage
from rmqlab.store.offline.powerloss import has_store, lose_unsynced, wipe_store
from rmqlab.store.offline.scan import LogScan
from rmqlab.store.results import PutResult, PutStatus
from rmqlab.store.testing import ManualClock, new_message, small_config

ALONE = GroupSettings(group="g", self_id="n0", peers={"n0": "127.0.0.1:40911"})


@attrs.define
class Member:
    """A store whose group is driven by hand."""

    root: Path
    store: MessageStore
    now: list[int]
    clock: ManualClock

    @property
    def log(self) -> EntryLog:
        assert isinstance(self.store.log, EntryLog)
        return self.store.log

    def lead(self) -> None:
        while not self.log.server.member.is_leader:
            self.work()
        self.store.set_role(is_slave=False)

    def work(self) -> None:
        self.now[0] += 100
        server = self.log.server
        server.work(self.now[0])
        for work in server.disk_work:
            for calls in work.take_started():
                run_calls(calls)
                server.resume(self.now[0])
        for call in server.take_calls():
            server.handle(call.code, call.request.encode(), None, self.now[0])  # type: ignore[arg-type]
        for decision, outcome in server.take_outcomes():
            decide(decision, outcome)
        self.store.dispatch()

    def kill(self) -> None:
        """Leave the files as they are."""
        self.store._closed = True
        self.store._release()

    def put(self, body: bytes, **fields: object) -> PutResult:
        result = self.store.append(new_message(body, **fields))  # type: ignore[arg-type]
        self.work()
        return result


Open = Callable[[str], Member]


@pytest.fixture
def open_member(tmp_path: Path) -> Iterator[Open]:
    opened: list[Member] = []

    def open_one(name: str = "member") -> Member:
        now = [1_000_000]
        kind = group_log(ALONE, lambda: now[0], lambda limit: limit - 1)
        clock = ManualClock(step=1)
        store = MessageStore.open(small_config(tmp_path / name), now_millis=clock, is_slave=True, log_kind=kind)
        opened.append(Member(tmp_path / name, store, now, clock))
        return opened[-1]

    yield open_one
    for member in opened:
        member.store.close()


def bodies(member: Member) -> list[bytes]:
    return [message.body for message in LogScan(log_directory(member.root)).messages()]


def test_puts_are_decided_and_read_behind_their_headers(open_member: Open) -> None:
    """dledger#5, #54, #55: offsets of records are 48 bytes behind those of entries."""
    member = open_member("member")
    member.lead()
    first = member.put(b"first", keys="k1")
    second = member.put(b"second", tags="A")
    assert (first.physical_offset, second.physical_offset) == (48, first.end_offset + 48)
    assert first.decision is not None
    assert first.decision.status is PutStatus.PUT_OK
    found = member.store.get_message("orders", 0, 0, 10)
    assert found.count == 2
    assert found.size == second.end_offset - 2 * 48
    assert len(member.store.query("orders", "k1", 10, 0, 2**62).buffers) == 1
    assert bodies(member) == [b"first", b"second"]


def test_a_batch_is_an_entry_per_message(open_member: Open) -> None:
    """Section 8.3"""
    member = open_member("member")
    member.lead()
    member.put(bytes(20_000))
    items = [BatchItem(bytes([number]) * 10_000) for number in range(6)]
    result = member.store.append_batch(new_message(b""), Batch.of(items))
    assert member.log.entries.end_index == 6
    assert result.physical_offsets is not None
    assert result.physical_offsets[-1] > 64 * 1024
    member.work()
    assert [found[0] for found in member.store.queue_entries("orders", 0, 1, 10)] == result.physical_offsets
    assert bodies(member)[1:] == [item.body for item in items]


def test_the_largest_message_is_that_of_the_start(open_member: Open) -> None:
    """DLedgerCommitLog.MessageSerializer. A plain broker follows the setting."""
    member = open_member("member")
    member.lead()
    member.store.reconfigure(attrs.evolve(member.store.config, max_message_size=20))
    assert member.store.put(new_message(body=bytes(30))).is_stored


def test_a_follower_refuses_puts_and_a_refused_put_uses_no_queue_offset(open_member: Open) -> None:
    """Section 8.3: refused before it was written."""
    member = open_member("member")
    assert member.store.append(new_message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    member.store.set_role(is_slave=False)  # a broker whose member does not lead yet
    assert member.store.append(new_message()).status is PutStatus.OS_PAGECACHE_BUSY
    member.lead()
    assert member.put(b"yes").queue_offset == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_restart_serves_the_same_messages(open_member: Open, *, is_clean: bool) -> None:
    """dledger#48, #50: after a stop and after a kill."""
    member = open_member("member")
    member.lead()
    for number in range(200):
        member.put(b"%d" % number + bytes(900), queue_id=number % 3)
    ends = [member.store.max_queue_offset("orders", queue) for queue in range(3)]
    if is_clean:
        member.store.close()
    else:
        member.kill()
    again = open_member("member")
    again.lead()
    again.put(b"more")
    assert [again.store.max_queue_offset("orders", queue) for queue in range(3)] == [ends[0] + 1, *ends[1:]]
    assert bodies(again)[:200] == [b"%d" % number + bytes(900) for number in range(200)]
    assert not list(again.store.queues.stuck)


def test_a_queue_that_is_lost_after_a_clean_stop_is_made_again(open_member: Open) -> None:
    member = open_member("member")
    member.lead()
    for number in range(3):
        member.put(b"%d" % number)
    member.put(b"last", topic="pay")
    entries = member.store.queue_entries("orders", 0, 0, 3)
    assert len(entries) == 3
    member.store.close()
    shutil.rmtree(member.root / "consumequeue" / "orders")
    member = open_member("member")
    assert member.store.queue_entries("orders", 0, 0, 3) == entries
    member.lead()
    assert member.put(b"next").queue_offset == 3


def test_the_last_record_is_dropped_if_only_its_entrys_header_is_whole(open_member: Open) -> None:
    """A power loss may leave it so; 4.9.8 serves it, and may send it to other members."""
    member = open_member("member")
    member.lead()
    puts = [member.put(b"%d" % number + bytes(900)) for number in range(3)]
    at = puts[-1].end_offset - 500
    member.log.files.files[-1].map[at : at + 100] = b"\xff" * 100
    member.store.close()
    again = open_member("member")
    again.lead()
    assert again.store.max_queue_offset("orders", 0) == 2
    assert again.put(b"again").queue_offset == 2
    assert bodies(again) == [b"0" + bytes(900), b"1" + bytes(900), b"again"]


def test_readers_of_files_find_the_same_records(open_member: Open) -> None:
    """One file of ranges, whatever their size, owns each record once."""
    member = open_member("member")
    member.lead()
    offsets = [member.put(bytes(100 + number)).physical_offset for number in range(100)]
    member.store.close()
    with LogImage.open(member.root) as image:
        assert list(image.starts(0)) == offsets
    (log,) = find_logs(member.root)
    (path,) = log_files(log)
    raw = path.read_bytes()
    for step in (300, 1_000, 10_000, len(raw)):
        found: list[int] = []
        for start in range(0, len(raw), step):
            found += _starts(path, start, min(start + step, len(raw)))
        assert found == offsets


def _starts(path: Path, start: int, end: int) -> list[int]:
    with FileImage.open(path) as image:
        parts = list(segments(image, 0, start, end))
    assert all(part.starts for part in parts)
    return [at for part in parts for at in part.starts]


def test_a_power_loss_leaves_what_was_flushed(open_member: Open) -> None:
    member = open_member("member")
    member.lead()
    for number in range(10):
        member.put(b"%d" % number)
        if number == 6:
            job = member.store.flush_job()
            assert job is not None
            job.run()
            member.store.flushed(job)
    member.kill()
    lost = lose_unsynced(small_config(member.root))
    assert lost.messages == 3
    assert bodies(member) == [b"%d" % number for number in range(7)]
    assert open_member("member").log.entries.end_index == 6


def test_a_wiped_member_has_no_files(open_member: Open) -> None:
    member = open_member("member")
    member.lead()
    member.put(b"gone")
    member.store.close()
    wipe_store(small_config(member.root))
    assert not has_store(small_config(member.root))
    assert bodies(open_member("member")) == []


def test_files_expire_an_hour_after_those_of_a_plain_broker(open_member: Open) -> None:
    """dledger#60: the start moves, and with it the first queue offset."""
    member = open_member("member")
    member.lead()
    for number in range(30):
        member.put(bytes([number]) * 5000)
    (count, hour) = (len(member.log.files.files), 3_600_000)
    member.clock.now += 72 * hour + hour // 2
    assert (count, run_calls(member.store.deletion_of_expired(4))) == (3, [])
    member.clock.now += hour // 2
    assert run_calls(member.store.deletion_of_expired(5)) == []
    assert run_calls(member.store.deletion_of_expired(4)) == [f"{0:020d}", f"{64 * 1024:020d}"]
    begin = member.log.entries.begin_index
    assert (begin > 20, member.store.min_queue_offset("orders", 0)) == (True, begin)
    member.kill()
    again = open_member("member")
    assert (again.log.entries.begin_index, again.log.entries.end_index) == (begin, 29)


def test_a_full_disk_refuses_puts_and_appends(open_member: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """dledger#59: the broker refuses with its own flag, and its member in either role."""
    member = open_member("member")
    used = 91
    monkeypatch.setattr(Disk, "used_percent", lambda *_: used)
    member.store.check_disk()
    member.lead()
    refused = member.put(b"x")
    assert (refused.status, "91 % full" in refused.reason) == (PutStatus.SERVICE_NOT_AVAILABLE, True)
    member.store.putter.refusal = None  # the disk became full after the broker's last check
    refused = member.put(b"x")
    assert (refused.status, "DISK_FULL" in refused.reason) == (PutStatus.OS_PAGECACHE_BUSY, True)
    used = 90
    member.store.check_disk()
    assert member.put(b"x").is_stored


def test_the_store_of_a_member_is_refused_to_a_plain_broker(open_member: Open) -> None:
    """Issue 16, bad input: one line, and nothing touched."""
    member = open_member("member")
    member.lead()
    member.put(b"hello")
    member.store.close()
    with pytest.raises(StoreError, match="this store is of a DLedger group"):
        MessageStore.open(small_config(member.root), now_millis=ManualClock())


def test_a_link_to_a_missing_directory_is_no_new_member(open_member: Open, tmp_path: Path) -> None:
    """It would have forgotten its log and its vote."""
    (tmp_path / "member").mkdir()
    (tmp_path / "member" / "dledger-n0").symlink_to(tmp_path / "not mounted")
    with pytest.raises(NotADirectoryError, match="member/dledger-n0"):
        open_member("member")


def test_a_client_of_dledger_may_append_whole_records_only(open_member: Open) -> None:
    """dledger#62: RocketMQ stores any bytes, and skips messages behind them."""
    member = open_member("member")
    member.lead()
    member.put(b"first")
    record = bytes(member.store.message_at(48) or b"")
    server = member.log.server
    for body in (b"", b"no record", record[:-1], record + b"x", record):
        request = AppendEntryRequest(group="g", remote_id="n0", body=body)
        server.handle(DLedgerRequestCode.APPEND, request.encode(), cast("Any", "client"), member.now[0])
    member.work()
    codes = [response.code for _, response in server.take_responses() if isinstance(response, AppendEntryResponse)]
    assert sorted(codes) == [200, 411, 411, 411, 411]
    assert bodies(member) == [b"first", b"first"]
    assert member.store.dispatch_behind_bytes == 0


@pytest.mark.parametrize("is_slave", [True, False])
@pytest.mark.parametrize("is_bulk", [True, False])
def test_entries_that_are_no_message_are_in_no_queue(
    open_member: Open, monkeypatch: pytest.MonkeyPatch, *, is_slave: bool, is_bulk: bool
) -> None:
    """A real leader appends what a client of DLedger sends.

    A new leader would wait for its dispatch forever.
    """
    if is_bulk:
        monkeypatch.setattr("rmqlab.store.dispatch._BULK", -1)  # queues first, the index after them
    member = open_member("member")
    member.lead()
    member.put(b"first", keys="k1")
    record = bytes(member.store.message_at(48) or b"")
    larger = (len(record) + 10_000).to_bytes(4, "big") + record[4:]
    member.store.set_role(is_slave=is_slave)
    member.store.dispatcher.entries.is_slave = is_slave
    entries = member.log.entries
    elsewhere = set_physical_offset(2**40, record)  # later records would count as known to its queue
    for body in (b"", b"junk", bytes(300), record + b"more", record[:-1], larger, elsewhere):
        entries.append(entries.end_term, body)
    second = record[:27] + b"\1" + record[28:].replace(b"k1", b"k2")  # its queue offset ends at byte 28
    last = entries.append(entries.end_term, second, set_physical_offset)
    entries.commit(entries.end_index)
    while member.store.dispatch(2**20):
        pass
    assert member.store.dispatch_behind_bytes == 0
    assert member.store.max_queue_offset("orders", 0) == 2
    assert member.store.queue_entries("orders", 0, 1, 1)[0][:2] == (last.pos + 48, len(record))
    assert [len(member.store.query("orders", key, 10, 0, 2**62).buffers) for key in ("k1", "k2")] == [1, 1]


def test_file_readers_stop_at_the_committed_end(open_member: Open) -> None:
    """What no quorum has is in no queue: the checks do not expect it there."""
    member = open_member("member")
    assert readable_end(member.root) == EVERYTHING
    member.lead()
    member.put(b"first")
    committed = member.put(b"second").end_offset
    member.store.append(new_message(b"not yet"))
    checkpoint = member.root / "dledger-n0" / "checkpoint"
    for index, end in (("1", committed), ("-1", 0), ("x", EVERYTHING)):
        checkpoint.write_text(f"committedIndex={index}\nendIndex=2\n")
        assert readable_end(member.root) == end
    assert committed < member.log.written_end
