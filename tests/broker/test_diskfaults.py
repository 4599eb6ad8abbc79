"""Rules against the disk of a real store."""

import errno
import pathlib
import threading
from collections.abc import Iterator

import pytest

from rmqlab.broker.diskfaults import open_faulty_disk
from rmqlab.runtime.fault_rules import DiskRule, NodeFaults, NodeRules
from rmqlab.store.configfile import save_config_file
from rmqlab.store.faults import FaultyDisk


@pytest.fixture
def faults() -> NodeFaults:
    return NodeFaults()


@pytest.fixture
def disk(faults: NodeFaults, tmp_path: pathlib.Path) -> Iterator[FaultyDisk]:
    with open_faulty_disk(faults, rate=10) as made:
        yield made
    made.read_only = True
    save_config_file(tmp_path / "after.json", b"1")  # the disk is out of use
    faults.set(NodeRules())  # nobody follows any more


@pytest.fixture
def descriptor(tmp_path: pathlib.Path) -> Iterator[int]:
    with (tmp_path / "file").open("w+b") as file:
        yield file.fileno()


def rule(kind: str, number: int = 1, **fields: float) -> DiskRule:
    return DiskRule(id=f"f{number}", kind=kind, **fields)  # type: ignore[arg-type]


def play(faults: NodeFaults, *rules: DiskRule) -> None:
    faults.set(NodeRules(disks=rules))


def test_a_full_disk_gives_what_is_left_then_nothing_and_says_that_it_is_full(
    faults: NodeFaults, disk: FaultyDisk, descriptor: int, tmp_path: pathlib.Path
) -> None:
    play(faults, rule("full", bytes_left=5000))
    disk.allocate(descriptor, 0, 4096)
    assert disk.used_percent(tmp_path) < 100
    play(faults, rule("full", bytes_left=5000), rule("used", 2, percent=3))
    assert disk.quota == 904  # another rule does not fill it up again
    assert disk.used_percent(tmp_path) == 3
    play(faults, rule("full", bytes_left=5000))
    with pytest.raises(OSError, match="No space"):
        disk.allocate(descriptor, 4096, 4096)
    assert disk.used_percent(tmp_path) == 100
    play(faults)
    disk.allocate(descriptor, 4096, 4096)
    assert disk.used_percent(tmp_path) < 100


@pytest.mark.parametrize(("kind", "number"), [("full", errno.ENOSPC), ("read-only", errno.EROFS)])
@pytest.mark.usefixtures("disk")
def test_small_files_fail_too_and_the_old_one_stays(
    faults: NodeFaults, tmp_path: pathlib.Path, kind: str, number: int
) -> None:
    path = tmp_path / "topics.json"
    save_config_file(path, b"old")
    play(faults, rule(kind))
    with pytest.raises(OSError) as told:  # noqa: PT011 -- its number is asked for
        save_config_file(path, b"new")
    assert told.value.errno == number
    play(faults)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(("kind", "number"), [("failing-sync", errno.EIO), ("read-only", errno.EROFS)])
def test_a_sync_fails(faults: NodeFaults, disk: FaultyDisk, descriptor: int, kind: str, number: int) -> None:
    play(faults, rule(kind))
    with pytest.raises(OSError) as told:  # noqa: PT011 -- its number is asked for
        disk.sync(descriptor)
    assert told.value.errno == number
    play(faults)
    disk.sync(descriptor)


def test_delays_are_of_the_clusters_clock_add_up_and_end_with_the_heal(
    faults: NodeFaults, disk: FaultyDisk, descriptor: int
) -> None:
    play(faults, rule("slow-sync", millis=600_000.0), rule("slow-sync", 2, millis=400_000.0))
    assert disk.sync_delay == 100
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
