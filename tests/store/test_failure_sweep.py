"""Every call that touches the disk fails in turn.

Afterwards a restart finds the acknowledged messages (issue 12).

A point is one call of `rmqlab.store.files.disk.Disk` in a fixed life of a store, or the second half of a write.
"""

import contextlib
import errno
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rmqlab.store
from rmqlab.remoting.message import decode_message
from rmqlab.store.files.configfile import keep_unsaved_files, load_config_file
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.powerloss import lose_unsynced
from rmqlab.store.results import GetStatus, PutResult
from rmqlab.store.testing import ManualClock, new_message
from tests.store.failingdisk import ERRNOS, FailingDisk
from tests.store.sweepworkload import SlaveWorkload, Workload, sweep_config

LEAST_POINTS = 900
"""Of the master's life and the slave's together. Fewer: the workload does less than it did."""

Play = Callable[[Path, FailingDisk], list[str]]
"""Lives below a directory, on a disk; returns the errors found afterwards."""


# ---- what must hold afterwards -----------------------------------------------------------------------------------


def reopen(root: Path) -> MessageStore:
    return MessageStore.open(sweep_config(root), now_millis=ManualClock(step=7), disk=FailingDisk())


def faults_of(root: Path, acknowledged: dict[bytes, PutResult], up_to: int, *, is_exact: bool) -> Iterator[str]:
    """Restart without faults.

    Yield missing messages that end at or before `up_to`, and unexpected ones.
    """
    restarted = reopen(root)
    run_calls(restarted.deletion_of_expired(5))  # a queue file that could not be deleted before
    try:
        for body, put in acknowledged.items():
            if restarted.min_commit_log_offset <= put.physical_offset < up_to:
                record = restarted.message_at(put.physical_offset)
                if record is None or bytes(decode_message(record).body) != body:
                    yield f"{body[:6]!r} at {put.physical_offset} is lost"
        for topic, queue_id in restarted.topics_queues():
            for found, fault in walk_queue(restarted, topic, queue_id):
                if fault:
                    yield fault
                elif is_exact and topic == "orders" and found not in acknowledged:
                    yield f"{found[:6]!r} was refused, and is there"
        for number in range(1, len(acknowledged), 7):
            for buffer in restarted.query("orders", f"k{number}", 32, 0, 2**62).buffers:
                if decode_message(buffer).properties["KEYS"] != f"k{number}":
                    yield f"a query for k{number} finds another message"
        if not restarted.put(new_message()).is_stored:
            yield f"no put after the restart: {restarted.write_refused()}"
    finally:
        restarted.close()
    if (root / "abort").exists():
        yield "a clean stop left `abort`"


def walk_queue(restarted: MessageStore, topic: str, queue_id: int) -> Iterator[tuple[bytes, str]]:
    """Yield the body of each message of a queue, or the error of its entry."""
    lowest, highest = restarted.min_queue_offset(topic, queue_id), restarted.max_queue_offset(topic, queue_id)
    for offset in range(lowest, highest):
        got = restarted.get_message(topic, queue_id, offset, 1)
        if got.status is not GetStatus.FOUND:
            yield b"", f"{topic}-{queue_id} has {lowest} to {highest}, but at {offset}: {got.status}"
            continue
        message = decode_message(got.buffers[0])
        is_right = (message.topic, message.queue_id, message.queue_offset) == (topic, queue_id, offset)
        yield message.body, "" if is_right else f"{topic}-{queue_id} at {offset} has {message.queue_offset}"


def play_master(root: Path, disk: FailingDisk) -> list[str]:
    life = Workload(root, disk)
    life.run()
    disk.fails_at = -1
    keep_unsaved_files()
    faults = []
    for name, least in (("kept.json", life.kept), ("saved.json", life.saved)):
        version = load_config_file(root / "config" / name, int) or 0
        if version < least:
            faults.append(f"{name} has version {version}, {least} was saved")
    if (root / "config" / "rmqlab.flushed").exists() and (root / "commitlog").is_dir():
        powerless = root.with_name("powerless")
        shutil.copytree(root, powerless)
        flushed = lose_unsynced(sweep_config(powerless)).flushed
        found = faults_of(powerless, life.acknowledged, flushed, is_exact=False)
        faults += [f"after a power loss: {fault}" for fault in found]
    return faults + list(faults_of(root, life.acknowledged, 2**62, is_exact=True))


def play_slave(root: Path, disk: FailingDisk) -> list[str]:
    master = reopen(root / "master")
    try:
        for number in range(80):
            assert master.put(new_message(b"%03d" % number * 50, queue_id=number % 2, keys=f"k{number}")).is_stored
        SlaveWorkload(root / "slave", disk, master).run()
        disk.fails_at = -1
        slave = SlaveWorkload(root / "slave", FailingDisk(), master).open()
        run_calls(slave.deletion_of_expired(5))  # queue files of a log that is gone
        try:
            begin, end = slave.min_commit_log_offset, slave.max_commit_log_offset
            faults = [] if end <= master.max_commit_log_offset else [f"the slave's log ends at {end}"]
            while begin < end:
                ours, theirs = (bytes(log.read_log(begin, end - begin)) for log in (slave, master))
                size = min(len(ours), len(theirs))
                if not size or ours[:size] != theirs[:size]:
                    faults.append(f"the slave's log differs from {begin} on")
                    break
                begin += size
            faults += [fault for queue in slave.topics_queues() for _, fault in walk_queue(slave, *queue) if fault]
        finally:
            slave.close()
    finally:
        master.close()
    return faults


def test_all_calls_of_the_store_go_through_one_seam() -> None:
    """Else a point is missing here.

    Tools that only look at stores, or play a power loss, are no part of a broker.
    """
    calls = re.compile(
        r"\bos\.(open|ftruncate|pwrite|preadv?|fsync|fdatasync|posix_fallocate|unlink|rename|replace|link|mkdir|rmdir)\("
        r"|mmap\.mmap\((?!-1)|(?<!disk)\.(open|read_bytes|write_bytes|write_text|unlink|mkdir|rmdir|touch|hardlink_to"
        r"|iterdir|exists|is_dir|is_file|stat|glob)\("
    )
    ours = re.compile(r"(LogFile|IndexFile|FileImage|FlushedMarks|MessageStore|queues|self|cls)\.open\(|self\.unlink\(")
    readers = {"disk.py", "logheads.py", "loglayout.py", "mappedimage.py", "readableend.py"}
    root = Path(rmqlab.store.__file__).parent
    paths = [path for path in root.rglob("*.py") if path.parent.name != "offline" and path.name not in readers]
    found = [
        f"{path.name}: {line.strip()}"
        for path in paths
        for line in path.read_text().splitlines()
        if calls.search(ours.sub("", line))
    ]
    assert len(paths) > 40
    assert not found


# ---- the sweep ---------------------------------------------------------------------------------------------------


def open_files(below: Path) -> list[str]:
    """Return the open files of this process below a directory.

    Others may be closed at any time, when objects of earlier tests are collected.
    """
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the listing's own descriptor
            found.append(str(descriptor.readlink()))
    return sorted(path for path in found if Path(path).is_relative_to(below))


def points_of(play: Play, root: Path) -> list[str]:
    disk = FailingDisk()
    assert play(root, disk) == []
    return disk.names


def sweep(play: Play, root: Path, failures: list[tuple[int, int, bool]]) -> list[str]:
    """Play once for each failure: point, errno, whether it lasts.

    Return what went wrong.
    """
    wrong = []
    for at, number, is_lasting in failures:
        disk, before = FailingDisk(at, number, is_lasting=is_lasting), open_files(root)
        try:
            faults = play(root / "life", disk)
        except Exception as exc:  # noqa: BLE001 - whatever leaves the store is what this looks for
            faults = [f"{type(exc).__name__}: {exc}"]
        if open_files(root) != before:
            faults.append("a file was left open")
        what = f"{at}: {disk.names[at]} fails with {errno.errorcode[number]}{', and all after it' * is_lasting}"
        wrong += [f"{what}: {fault}" for fault in faults]
        shutil.rmtree(root, ignore_errors=True)
    return wrong


@pytest.mark.parametrize("play", [play_master, play_slave])
def test_any_call_that_fails_leaves_a_store_that_restarts_whole(play: Play, quick_path: Path) -> None:
    """A sample: every third point once with one errno, every sixth from then on.

    `make sweep` tries all.
    """
    points = len(points_of(play, quick_path / "plain"))
    failures = [(at, ERRNOS[at // 3 % 3], False) for at in range(0, points, 3)]
    failures += [(at, ERRNOS[at // 6 % 3], True) for at in range(0, points, 6)]
    assert not sweep(play, quick_path / "sweep", failures)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
@pytest.mark.parametrize("play", [play_master, play_slave])
def test_every_call_fails_in_every_way(play: Play, number: int, is_lasting: bool, quick_path: Path) -> None:  # noqa: FBT001
    points = len(points_of(play, quick_path / "plain"))
    assert not sweep(play, quick_path / "sweep", [(at, number, is_lasting) for at in range(points)])


def test_the_sweep_has_a_known_number_of_points(
    quick_path: Path, record_property: Callable[[str, object], None]
) -> None:
    counts = [len(points_of(play, quick_path / play.__name__)) for play in (play_master, play_slave)]
    record_property("failure points", counts)
    assert sum(counts) >= LEAST_POINTS, counts
