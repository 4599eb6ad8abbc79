"""One mapped file: space ahead of the write position, growth steps, full disks."""

import ctypes
import mmap
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import attrs
import pytest

from rmqlab.faults.disk.full import Quota
from rmqlab.store.disk import Disk, StoreCorrupt
from rmqlab.store.faulty_disk import FaultyDisk
from rmqlab.store.filequeue import FileQueue
from rmqlab.store.logfile import LogFile, offset_name

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


def test_what_is_appended_by_calls_and_what_is_mapped_are_one(tmp_path: Path) -> None:
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
def test_what_is_written_next_is_brought_into_memory_and_stays_as_it_is(tmp_path: Path) -> None:
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
