"""Expired files are deleted in a worker thread."""

import threading
from pathlib import Path

import attrs
import trio

from rmqlab.runtime.net.worker import calls_in_thread
from rmqlab.store.files.disk import Disk
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config


@attrs.define(eq=False)
class NotingDisk(Disk):
    """Notes the threads in which files are deleted; deletes no file named in `kept`."""

    threads: dict[Path, threading.Thread] = attrs.field(factory=dict)
    kept: str = ""

    def unlink(self, path: Path) -> None:
        self.threads[path] = threading.current_thread()
        if path.name == self.kept:
            raise PermissionError(f"{path} is kept")
        super().unlink(path)


def filled(root: Path, disk: Disk) -> MessageStore:
    clock = ManualClock(step=1)
    store = MessageStore.open(small_config(root, max_index_num=50), now_millis=clock, disk=disk)
    for number in range(400):
        store.put(new_message(b"x" * 400, queue_id=number % 2, keys=f"k{number}"))
    clock.now += 100 * 3_600_000
    return store


def test_no_expired_file_is_deleted_in_the_event_loop(tmp_path: Path) -> None:
    disk = NotingDisk()
    store = filled(tmp_path, disk)
    names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    assert trio.run(calls_in_thread, store.deletion_of_expired(4)) == names[:3]
    assert {path.relative_to(tmp_path).parts[0] for path in disk.threads} == {"commitlog", "consumequeue", "index"}
    assert threading.current_thread() not in disk.threads.values()
    assert not any(path.exists() for path in disk.threads)
    store.close()


def test_a_file_that_the_disk_keeps_stays_in_the_log(tmp_path: Path) -> None:
    disk = NotingDisk(kept=f"{0:020d}")
    store = filled(tmp_path, disk)
    assert trio.run(calls_in_thread, store.deletion_of_expired(4)) == []
    assert store.get_message("orders", 0, 0, 1).count == 1
    store.close()
