"""Rules against the disk of a real store."""

import errno
import pathlib
import threading
from collections.abc import Iterator

import pytest
import trio

from rmqlab.broker.faulty_disk import open_faulty_disk
from rmqlab.faults import DiskFull, DiskUsed, FailingSync, ReadOnlyDisk, SlowSync
from rmqlab.faults.disk.fault import DiskFault
from rmqlab.faults.disk.read_only import ReadOnly
from rmqlab.faults.disk.slow_sync import SyncDelay
from rmqlab.faults.rules import NodeRules, OwnRule
from rmqlab.runtime.clock import ClockSettings, RatedClock
from rmqlab.runtime.net.node_faults import NodeFaults
from rmqlab.store.files.configfile import save_config_file
from rmqlab.store.files.faulty_disk import FaultyDisk


@pytest.fixture
def faults() -> NodeFaults:
    return NodeFaults()


@pytest.fixture
def disk(faults: NodeFaults, tmp_path: pathlib.Path) -> Iterator[FaultyDisk]:
    with open_faulty_disk(faults) as made:
        yield made
    made.set_effects([ReadOnly()])
    save_config_file(tmp_path / "after.json", b"1")  # the disk is out of use
    faults.set({})  # the former disk no longer follows


@pytest.fixture
def descriptor(tmp_path: pathlib.Path) -> Iterator[int]:
    with (tmp_path / "file").open("w+b") as file:
        yield file.fileno()


def play(faults: NodeFaults, **by_id: DiskFault) -> None:
    rules = tuple(OwnRule(id=fault_id, fault=fault) for fault_id, fault in by_id.items())
    faults.set(NodeRules(own=rules).to_plain())


def test_a_full_disk_gives_what_is_left_then_nothing_and_says_that_it_is_full(
    faults: NodeFaults, disk: FaultyDisk, descriptor: int, tmp_path: pathlib.Path
) -> None:
    full = DiskFull(target="broker-a", bytes_left=5000)
    play(faults, f1=full)
    disk.allocate(descriptor, 0, 4096)
    assert disk.used_percent(tmp_path) < 100
    play(faults, f1=full, f2=DiskUsed(target="broker-a", percent=3))
    assert disk.used_percent(tmp_path) == 3
    disk.allocate(descriptor, 4096, 904)
    play(faults, f1=full)  # another fault does not refill the quota
    with pytest.raises(OSError, match="No space"):
        disk.allocate(descriptor, 5000, 1)
    assert disk.used_percent(tmp_path) == 100
    play(faults)
    disk.allocate(descriptor, 4096, 4096)
    assert disk.used_percent(tmp_path) < 100


@pytest.mark.parametrize(
    ("fault", "number"),
    [(DiskFull(target="broker-a"), errno.ENOSPC), (ReadOnlyDisk(target="broker-a"), errno.EROFS)],
)
@pytest.mark.usefixtures("disk")
def test_small_files_fail_too_and_the_old_one_stays(
    faults: NodeFaults, tmp_path: pathlib.Path, fault: DiskFault, number: int
) -> None:
    path = tmp_path / "topics.json"
    save_config_file(path, b"old")
    play(faults, f1=fault)
    with pytest.raises(OSError) as caught:  # noqa: PT011 -- its number is asked for
        save_config_file(path, b"new")
    assert caught.value.errno == number
    play(faults)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("fault", "number"),
    [(FailingSync(target="broker-a"), errno.EIO), (ReadOnlyDisk(target="broker-a"), errno.EROFS)],
)
def test_a_sync_fails(faults: NodeFaults, disk: FaultyDisk, descriptor: int, fault: DiskFault, number: int) -> None:
    play(faults, f1=fault)
    with pytest.raises(OSError) as caught:  # noqa: PT011 -- its number is asked for
        disk.sync(descriptor)
    assert caught.value.errno == number
    play(faults)
    disk.sync(descriptor)


def test_delays_add_up_and_end_with_the_heal(faults: NodeFaults, disk: FaultyDisk, descriptor: int) -> None:
    slow, slower = SlowSync(target="broker-a", millis=400_000), SlowSync(target="broker-a", millis=600_000)

    async def start() -> list[float]:
        play(faults, f1=slow, f2=slower)
        return [effect.seconds for effect in disk.effects if isinstance(effect, SyncDelay)]

    clock = RatedClock(ClockSettings.starting_now(rate=10))
    assert trio.run(start, clock=clock) == [40, 60]  # the cluster's time, as real seconds
    synced = threading.Event()

    def sync() -> None:
        disk.sync(descriptor)
        synced.set()

    syncing = threading.Thread(target=sync)
    syncing.start()
    assert not synced.wait(0.05)
    play(faults)
    syncing.join(30)
    assert synced.is_set()


def test_the_highest_claim_of_usage_counts(faults: NodeFaults, disk: FaultyDisk, tmp_path: pathlib.Path) -> None:
    play(faults, f1=DiskUsed(target="broker-a", percent=80), f2=DiskUsed(target="broker-a", percent=92))
    assert disk.used_percent(tmp_path) == 92
