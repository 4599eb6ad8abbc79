"""Members whose log continues a plain one: section 8.5, dledger#56."""

from pathlib import Path

import pytest

from rmqlab.dledger.entry import BODY_OFFSET
from rmqlab.pipeline.stores.commitlogs import find_logs, log_files
from rmqlab.remoting.message import decode_messages
from rmqlab.store.files.disk import StoreError
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.log.loglayout import log_begin
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.compare import LogImage, Verdict, compare_logs
from rmqlab.store.offline.powerloss import lose_unsynced
from rmqlab.store.testing import ManualClock, new_message, small_config
from tests.broker.dledger.test_store import Member, Open, bodies, open_member

__all__ = ["open_member"]

FILE = 64 * 1024
OLD = [b"old %d " % number + bytes(5000) for number in range(30)]
"""More than two files of the plain log."""
DIVIDE = 3 * FILE


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A stopped store of a plain broker."""
    store = MessageStore.open(small_config(tmp_path / "member"), now_millis=ManualClock(step=1))
    for body in OLD:
        assert store.put(new_message(body)).is_stored
    store.close()
    return tmp_path / "member"


def served(member: Member) -> list[bytes]:
    """Read queue 0 as a consumer does."""
    found: list[bytes] = []
    while buffers := member.store.get_message("orders", 0, len(found), 32).buffers:
        found += [message.body for buffer in buffers for message in decode_messages(bytes(buffer))]
    return found


def join(open_member: Open, *new: bytes) -> Member:
    """Open the store as a member, and put messages."""
    member = open_member("member")
    member.lead()
    for body in new:
        assert member.put(body).is_stored
    return member


@pytest.mark.usefixtures("plain")
def test_entries_continue_the_offsets_and_queues_of_a_plain_log(open_member: Open) -> None:
    """dledger#56: the first entry begins at the next multiple of the file size."""
    member = join(open_member)
    assert (member.log.min_offset, member.log.max_offset, member.store.dispatched_offset) == (0, DIVIDE, DIVIDE)
    assert served(member) == OLD
    put = member.put(b"new")
    assert (put.physical_offset, put.queue_offset) == (DIVIDE + BODY_OFFSET, len(OLD))
    assert (member.log.entries.get(0).pos, member.log.entries.begin_index) == (DIVIDE, 0)
    assert served(member) == [*OLD, b"new"]
    assert member.store.query("orders", "none", 1, 0, 2**62).buffers == []
    first = member.store.queue_entries("orders", 0, 0, 1)[0]
    assert bytes(member.store.message_at(first[0], first[1]) or b"") != b""


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_later_starts_find_the_divide_in_the_files(open_member: Open, *, is_clean: bool) -> None:
    """dledger#56"""
    member = join(open_member, b"new")
    if is_clean:
        member.store.close()
    else:
        member.kill()
    again = join(open_member, b"newer")
    assert served(again) == [*OLD, b"new", b"newer"]
    assert (again.log.entries.begin_index, again.log.entries.end_index) == (0, 1)


@pytest.mark.usefixtures("plain")
def test_a_member_that_stored_nothing_yet_starts_again(open_member: Open) -> None:
    """dledger#56: the empty file of entries is the divide."""
    join(open_member).store.close()
    again = join(open_member)
    assert served(again) == OLD
    assert again.put(b"new").physical_offset == DIVIDE + BODY_OFFSET


def test_a_killed_plain_broker_becomes_a_member(plain: Path, open_member: Open) -> None:
    """dledger#56: recovered as after a clean stop, whatever its stop was."""
    (plain / "abort").touch()
    path = max((plain / "commitlog").iterdir())
    with path.open("r+b") as file:  # a torn record at the end
        file.seek(path.stat().st_size // 2)
        file.write(b"\x00\x00\x01\x00" + b"torn")
    assert served(join(open_member, b"new")) == [*OLD, b"new"]


def test_readers_of_files_read_both_parts(plain: Path, open_member: Open) -> None:
    """dledger#56: the scan of the checks, the image of `diff`, the ranges of Spark."""
    member = join(open_member, b"new", b"newer")
    member.store.close()
    assert bodies(member) == [*OLD, b"new", b"newer"]
    (log,) = find_logs(plain)
    assert [int(path.name) for path in log_files(log)] == [0, FILE, 2 * FILE, DIVIDE]
    assert (log.node, log_begin(plain)) == ("member", 0)
    with LogImage.open(plain) as image, LogImage.open(plain) as other:
        assert len(list(image.starts(0))) == len(OLD) + 2
        assert compare_logs(image, other).verdict is Verdict.EQUAL
        assert compare_logs(image, other).common_to == image.max_offset > DIVIDE
    with pytest.raises(StoreError, match="this store is of a DLedger group"):
        MessageStore.open(small_config(plain), now_millis=ManualClock())


@pytest.mark.usefixtures("plain")
def test_plain_files_expire_first_and_all_of_them(open_member: Open) -> None:
    """dledger#56, #60: while one exists, no entry expires."""
    member = join(open_member, *(bytes([number]) * 5000 for number in range(30)))
    hour = 3_600_000
    member.clock.now += 73 * hour
    assert run_calls(member.store.deletion_of_expired(4)) == [f"{number * FILE:020d}" for number in range(3)]
    assert (member.log.min_offset, member.store.min_queue_offset("orders", 0)) == (DIVIDE, len(OLD))
    assert member.log.entries.begin_index == 0
    assert run_calls(member.store.deletion_of_expired(4)) == [f"{number * FILE:020d}" for number in range(3, 5)]
    assert member.log.entries.begin_index > 0


def test_a_power_loss_leaves_the_plain_part(plain: Path, open_member: Open) -> None:
    """dledger#56"""
    member = join(open_member)
    job = member.store.flush_job()
    if job is not None:
        job.run()
        member.store.flushed(job)
    member.put(b"never synced")
    member.kill()
    assert lose_unsynced(small_config(plain)).messages == 1
    assert bodies(member) == OLD
