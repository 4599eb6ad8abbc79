"""Files that expire in a thread while their sequence begins anew.

It then has a new file of their name.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import attrs
import pytest

from rmqlab.store.files.disk import Disk
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.queue.deletedqueues import DeletedQueues
from tests.store.failingdisk import FailingDisk

SIZE = 4096


def two_files(directory: Path, disk: Disk) -> FileQueue:
    files = FileQueue(directory / "topic" / "0", SIZE, disk)
    for number in range(2):
        files.add(number * SIZE).append(bytes([number + 1]) * SIZE)
    return files


def cut_in_thread(files: FileQueue, _disk: FailingDisk) -> None:
    for file in files.detach_all():
        file.delete()


def destroy(files: FileQueue, _disk: FailingDisk) -> None:
    files.destroy()


def destroy_refused(files: FileQueue, disk: FailingDisk) -> None:
    """The disk deletes nothing; the first bytes are zeroed, for the next start."""
    disk.fails_at, disk.is_lasting = len(disk.names), True
    files.destroy()
    disk.fails_at = -1


def delete_topic(files: FileQueue, disk: FailingDisk) -> None:
    deleted = DeletedQueues(files.directory.parent.with_name("deleted"), disk)
    deleted.take(files.directory.parent, [Mock(files=files)])
    deleted.close()


@pytest.mark.parametrize("begin_anew", [cut_in_thread, destroy, destroy_refused, delete_topic])
def test_a_late_deletion_leaves_the_new_file_of_its_name(
    tmp_path: Path, begin_anew: Callable[[FileQueue, FailingDisk], None]
) -> None:
    """The thread that deletes the expired file gets its turn when all else is done."""
    disk = FailingDisk()
    files = two_files(tmp_path, disk)
    deletion = files.deletion_of_first()
    late = next(deletion)
    begin_anew(files, disk)
    new = files.add(0)
    new.append(b"new")
    late()
    assert new.path.read_bytes()[:3] == b"new"
    for call in deletion:
        call()
    assert files.files == [new]
    files.close()


@attrs.define(eq=False)
class SlowDisk(Disk):
    """The first deletion is under way until a test lets it end."""

    is_begun: threading.Event = attrs.field(factory=threading.Event)
    may_end: threading.Event = attrs.field(factory=threading.Event)

    def unlink(self, path: Path) -> None:
        if not self.is_begun.is_set():
            self.is_begun.set()
            self.may_end.wait(10)
        Disk.unlink(self, path)


def test_a_log_that_begins_anew_waits_for_a_deletion_under_way(tmp_path: Path) -> None:
    disk = SlowDisk()
    files = two_files(tmp_path, disk)
    expiry = threading.Thread(target=next(files.deletion_of_first()))
    expiry.start()
    assert disk.is_begun.wait(10)
    (second, first) = files.detach_all()
    cut = threading.Thread(target=first.delete)
    cut.start()
    cut.join(0.05)
    assert cut.is_alive()
    disk.may_end.set()
    cut.join(10)
    expiry.join(10)
    assert not first.path.exists()
    second.delete()
