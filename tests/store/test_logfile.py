"""One mapped file: space ahead of the write position, growth steps, full disks."""

import ctypes
import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import attrs
import pytest

from rmqlab.faults.disk.full import Quota
from rmqlab.store.files.disk import Disk, StoreCorrupt
from rmqlab.store.files.faulty_disk import FaultyDisk
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.files.logfile import LogFile, offset_name

MB = 2**20


@attrs.define(eq=False)
class Recorder(Disk):
    """Records the allocated ranges."""

    ranges: list[tuple[int, int]] = attrs.field(factory=list)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        self.ranges.append((offset, length))
        Disk.allocate(self, descriptor, offset, length)


def test_room_grows_in_steps_ahead_of_what_is_written(tmp_path: Path) -> None:
    """256 KiB first, then doubled, at most 8 MiB.

    A small broker stays small, and a busy one rarely allocates.
    """
    disk, size = Recorder(), 40 * 2**20
    file = LogFile.open(tmp_path / offset_name(0), size, disk, create=True)
    while file.wrote < size:
        end = min(size, file.wrote + 60_000)
        file.ensure_room(end)
        assert file.room >= end
        file.wrote = end
    kib = [length // 1024 for _, length in disk.ranges]
    assert kib[:6] == [256, 256, 512, 1024, 2048, 4096]
    assert max(kib) == 8192
    assert sum(kib) == size // 1024
    file.close()


@pytest.mark.parametrize("quota", [1000, 100_000, 300_000])
def test_a_disk_with_little_left_is_used_to_its_end(tmp_path: Path, quota: int) -> None:
    disk = FaultyDisk([Quota(quota)])
    file = LogFile.open(tmp_path / offset_name(0), 2**20, disk, create=True)

    def fill() -> NoReturn:
        while True:
            file.ensure_room(file.wrote + 100)
            file.map[file.wrote : file.wrote + 100] = b"x" * 100
            file.wrote += 100

    with pytest.raises(OSError, match="No space left"):
        fill()
    assert quota - 100 < file.wrote <= quota
    file.close()


def test_appended_bytes_and_mapped_bytes_are_the_same(tmp_path: Path) -> None:
    file = LogFile.open(tmp_path / offset_name(0), 1000, Disk(), create=True)
    file.append(b"called ")
    file.ensure_room(13)
    file.map[7:13] = b"mapped"
    file.wrote = 13
    file.append(memoryview(b"X called"))
    assert bytes(file.view[: file.wrote]) == b"called mappedX called"
    file.append(bytes(1000 - file.wrote))
    assert file.is_full
    assert file.path.read_bytes() == bytes(file.view)
    file.close()


def test_an_append_that_finds_no_room_changes_nothing(tmp_path: Path) -> None:
    file = LogFile.open(tmp_path / offset_name(0), 2**20, FaultyDisk([Quota(1000)]), create=True)
    file.append(b"x" * 900)
    with pytest.raises(OSError, match="No space left"):
        file.append(b"y" * 200)
    assert file.wrote == 900
    assert not any(file.view[900:])
    file.append(b"z" * 100)
    file.close()


def test_a_new_file_is_sparse(tmp_path: Path) -> None:
    file = LogFile.open(tmp_path / offset_name(0), 2**30, Disk(), create=True)
    file.ensure_room(1)
    assert file.path.stat().st_size == 2**30
    assert file.path.stat().st_blocks * 512 < 2**20
    file.close()


def test_an_empty_last_file_was_being_made_and_goes(tmp_path: Path) -> None:
    for name, size in [(f"{0:020d}", 100), (f"{100:020d}", 0)]:
        (tmp_path / name).write_bytes(bytes(size))
    files = FileQueue(tmp_path, 100, Disk())
    files.load()
    assert [file.path.name for file in files.files] == [f"{0:020d}"]
    files.close()
    assert not (tmp_path / f"{100:020d}").exists()


def test_another_length_is_named(tmp_path: Path) -> None:
    """store-ha#6."""
    path = tmp_path / offset_name(0)
    path.write_bytes(b"x" * 10)
    with pytest.raises(StoreCorrupt, match=f"{path} has 10 bytes, expected 20"):
        LogFile.open(path, 20, Disk(), create=False)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no call for it")
def test_pages_written_next_are_brought_into_memory_unchanged(tmp_path: Path) -> None:
    if "tmpfs" in subprocess.check_output(["stat", "-f", "-c", "%T", tmp_path], text=True):
        pytest.skip("a file system that is memory brings nothing in")
    file = LogFile.open(tmp_path / offset_name(0), 16 * MB, Disk(), create=True)
    file.append(b"x" * MB)
    assert in_memory(file) == [True] + [False] * 15
    file.warm(8 * MB)
    assert in_memory(file) == [True] + [False] * 4 + [True] * 4 + [False] * 7  # what is too near is left out
    file.append(b"x" * MB)
    file.warm(8 * MB)
    assert in_memory(file) == [True] * 2 + [False] * 3 + [True] * 5 + [False] * 6
    assert file.path.read_bytes() == b"x" * 2 * MB + bytes(14 * MB)
    file.delete()
    file.warm(16 * MB)


def in_memory(file: LogFile) -> list[bool]:
    """For each MB, whether its first page is in memory.

    To ask by reading would bring it in.
    """
    found = (ctypes.c_ubyte * (file.size // mmap.PAGESIZE))()
    begin = ctypes.c_char.from_buffer(file.map)
    assert ctypes.CDLL(None).mincore(ctypes.byref(begin), ctypes.c_size_t(file.size), found) == 0
    return [bool(page & 1) for page in found[:: MB // mmap.PAGESIZE]]


def opened(directory: Path, disk: Disk) -> LogFile:
    return LogFile.open(directory / offset_name(0), 2**16, disk, create=True)


def open_files() -> int:
    """Count the descriptors of this process."""
    return sum(1 for _ in Path("/dev/fd").iterdir())


@attrs.define(eq=False)
class SyncedFiles(Disk):
    """Notes the inodes that are synced, and counts the files that are opened."""

    inodes: list[int] = attrs.field(factory=list)
    opens: int = 0

    def open(self, path: Path, flags: int = os.O_RDWR) -> int:
        self.opens += 1
        return Disk.open(self, path, flags)

    def sync(self, descriptor: int) -> None:
        self.inodes.append(os.fstat(descriptor).st_ino)
        Disk.sync(self, descriptor)


def test_a_file_that_is_synced_often_stays_open_until_it_is_full(tmp_path: Path) -> None:
    disk = SyncedFiles()
    file = opened(tmp_path, disk)
    file.append(b"x")
    opens = disk.opens
    for _ in range(3):
        file.sync_again()
    assert disk.opens == opens + 1
    descriptors = open_files()
    file.append(bytes(file.size - 1))
    file.sync_again()
    assert open_files() == descriptors - 2, "that of `append`, too"
    file.sync_again()
    assert open_files() == descriptors - 2
    assert set(disk.inodes) == {(file.path).stat().st_ino}
    file.close()


def test_a_file_that_replaces_a_deleted_one_is_synced_itself(tmp_path: Path) -> None:
    disk = SyncedFiles()
    former = opened(tmp_path, disk)
    former.sync_again()
    descriptors = open_files()
    (tmp_path / "another").hardlink_to(former.path)  # keeps the inode, which another process could free otherwise
    former.discard()
    assert open_files() < descriptors, "an open file keeps its blocks on the disk"
    file = opened(tmp_path, disk)
    file.sync_again()
    assert disk.inodes[-1] == file.path.stat().st_ino != disk.inodes[0]
    file.close()


def test_a_file_is_not_closed_while_a_thread_syncs_it(tmp_path: Path) -> None:
    """Its number could be that of another file by then."""
    valid: list[bool] = []

    class Closing(Disk):
        def sync(self, descriptor: int) -> None:
            file.close()
            valid.append(os.fstat(descriptor).st_ino == file.path.stat().st_ino)

    file = opened(tmp_path, Closing())
    file.sync_again()
    assert valid == [True]


def test_after_a_failed_sync_the_file_is_opened_again(tmp_path: Path) -> None:
    class Failing(SyncedFiles):
        def sync(self, descriptor: int) -> NoReturn:
            del descriptor
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = Failing()
    file = opened(tmp_path, disk)
    opens = disk.opens
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            file.sync_again()
    assert disk.opens == opens + 2
    file.close()
