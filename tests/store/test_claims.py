"""What a store's files claim after a start that could not make everything again."""

import errno
import itertools
import shutil
from pathlib import Path

import attrs
import pytest

from rmqlab.store.files.disk import Disk, StoreError
from rmqlab.store.files.lock import forget_locks
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.queue.consumequeue import ENTRY
from rmqlab.store.queue.queueends import ENDS_FILE
from rmqlab.store.testing import ManualClock, new_message, small_config
from tests.store.forgetfuldisk import ForgetfulDisk, Killed, copy_store, forgets_all
from tests.store.sweepworkload import kill
from tests.store.test_queueends import entered
from tests.store.test_second_failure import flush

COUNT = 300


def opened(root: Path, disk: Disk | None = None, *, now: int = 0) -> MessageStore:
    """Open a store whose clock begins `now` ms after that of a new one."""
    clock = ManualClock(step=1000)
    clock.now += now
    return MessageStore.open(small_config(root, max_index_num=100), now_millis=clock, disk=disk)


def put(store: MessageStore, count: int, topic: str = "orders") -> None:
    for number in range(count):
        store.put(new_message(bytes(100), topic=topic, keys=f"k{number}"))


@attrs.define
class FullDisk(Disk):
    """Has no room after some more allocations, until `room` is set again."""

    room: int

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        if not self.room:
            raise OSError(errno.ENOSPC, "no room")
        self.room -= 1
        super().allocate(descriptor, offset, length)


def test_a_queue_that_a_full_disk_kept_from_its_end_is_not_claimed(quick_path: Path) -> None:
    root = quick_path / "store"
    store = opened(root)
    for _ in range(5):
        put(store, COUNT)
        put(store, COUNT, topic="pay")
    whole = entered(store)
    store.close()
    shutil.rmtree(root / "consumequeue" / "orders")
    store = opened(root, FullDisk(room=0))
    assert entered(store) != whole
    flush(store)
    kill(store)
    store = opened(root)
    assert entered(store) == whole
    store.close()


@pytest.mark.parametrize("ends", ["power-loss", "queue-lost", "queue-lost-without-ends"])
def test_a_topic_that_was_created_again_survives_a_killed_rebuild(quick_path: Path, ends: str) -> None:
    root = quick_path / "store"
    disk = ForgetfulDisk(root=root)
    store = opened(root, disk)
    put(store, 5 * COUNT)
    store.delete_topic("orders")
    put(store, COUNT)
    whole = entered(store)
    if ends == "power-loss":
        job = store.flush_job()
        assert job is not None
        job.run()
        kill(store)
        disk.lose_power(forgets_all, keeps_names=False)
    else:
        store.close()
        shutil.rmtree(root / "consumequeue" / "orders")
        if ends == "queue-lost-without-ends":  # as in RocketMQ's stores
            (root / ENDS_FILE).unlink()
    copy_store(root, quick_path / "ended")
    for at in itertools.count(20, 9):
        copy_store(quick_path / "ended", root)
        try:
            kill(opened(root, ForgetfulDisk(at, root=root)))
        except Killed:
            forget_locks(root)
            store = opened(root)
            assert entered(store) == whole, at
            kill(store)
        else:
            break
    assert at > 100


def test_a_topic_that_was_created_again_is_whole_once_a_full_disk_has_room(quick_path: Path) -> None:
    root = quick_path / "store"
    store = opened(root)
    put(store, 5 * COUNT)
    store.delete_topic("orders")
    put(store, COUNT)
    whole = entered(store)
    store.close()
    shutil.rmtree(root / "consumequeue" / "orders")
    disk = FullDisk(room=3)
    store = opened(root, disk)
    disk.room = 1000
    store.check_disk()
    store.enter_appended()
    assert entered(store) == whole
    store.close()


def test_a_rebuilt_queue_in_place_of_a_former_one_is_synced(quick_path: Path) -> None:
    root, queue = quick_path / "store", quick_path / "store" / "consumequeue" / "orders" / "0"
    store = opened(root)
    put(store, COUNT)
    store.close()
    shutil.copytree(queue, quick_path / "former")
    store = opened(root, now=10_000_000)
    store.delete_topic("orders")
    put(store, COUNT - 30)
    put(store, 5 * COUNT, topic="pay")
    whole = entered(store)
    store.close()
    shutil.rmtree(queue)
    shutil.copytree(quick_path / "former", queue)
    last = max(queue.iterdir())
    last.write_bytes(last.read_bytes()[:-100] + bytes(100))
    disk = ForgetfulDisk(root=root)
    store = opened(root, disk, now=20_000_000)
    flush(store)
    flush(store)
    kill(store)
    disk.lose_power(forgets_all, keeps_names=True)
    store = opened(root, now=30_000_000)
    assert entered(store) == whole
    store.close()


def test_the_index_stays_complete_if_the_last_log_files_have_no_record(quick_path: Path) -> None:
    """Their claims end with the last record that a queue has, not at 0."""
    root = quick_path / "store"
    store = opened(root)
    put(store, 1000)
    flush(store)
    store.close()
    second = sorted((root / "commitlog").iterdir())[1]
    second.write_bytes(b"\xff" * 40 + second.read_bytes()[40:])
    clock = ManualClock(step=1000)
    store = MessageStore.open(small_config(root, max_index_num=100), now_millis=clock)
    clock.now += 2_000_000
    known = [number for number in range(COUNT) if store.query("orders", f"k{number}", 32, 0, 2**62).buffers]
    assert len(known) > COUNT // 2
    flush(store)
    for number in range(730):  # too few keys for an index file
        store.put(new_message(bytes(100), keys="new" if number < 30 else ""))
        if number == 30:
            flush(store)
    flush(store)
    kill(store)
    store = opened(root)
    assert all(store.query("orders", f"k{number}", 32, 0, 2**62).buffers for number in known[: COUNT // 2])
    store.close()


def test_a_light_queue_keeps_its_last_entry_after_a_kill(quick_path: Path) -> None:
    """It is in two pages of its file, but dispatch would not make it again."""
    root, in_two_pages = quick_path / "store", 205
    config = small_config(root, mapped_file_size_consume_queue=1000 * 20)
    store = MessageStore.open(config, now_millis=ManualClock(step=1000))
    names = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}
    for _ in range(COUNT):
        store.put(new_message(topic="parent", properties=names))
    entries = [ENTRY.pack(*store.queue_entries("parent", 0, at, 1)[0]) for at in range(in_two_pages)]
    store.close()
    queue = root / "consumequeue" / "%LMQ%a" / "0"
    queue.mkdir(parents=True)
    (queue / ("0" * 20)).write_bytes(b"".join(entries).ljust(1000 * 20, b"\0"))
    kill(MessageStore.open(config, now_millis=ManualClock(step=1000)))
    store = MessageStore.open(config, now_millis=ManualClock(step=1000))
    assert store.max_queue_offset("%LMQ%a", 0) == in_two_pages
    store.close()


@attrs.define
class UnwritableDisk(Disk):
    """Rejects a new checkpoint."""

    number: int

    def truncate(self, descriptor: int, size: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "checkpoint":
            raise OSError(self.number, "no room")
        super().truncate(descriptor, size)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [pytest.param(errno.ENOSPC, ": free some space", id="full"), pytest.param(errno.EIO, "", id="failing")],
)
def test_a_start_that_cannot_withdraw_the_claim_names_the_checkpoint(tmp_path: Path, number: int, remedy: str) -> None:
    """A later start would not look for the entries that this one has to make again."""
    store = opened(tmp_path)
    put(store, COUNT)
    whole = entered(store)
    store.close()
    shutil.rmtree(tmp_path / "consumequeue" / "orders")
    (tmp_path / "checkpoint").unlink()
    with pytest.raises(StoreError, match=rf"checkpoint and abort cannot be written: no room\. .*know that{remedy}$"):
        opened(tmp_path, UnwritableDisk(number))
    again = opened(tmp_path)
    assert entered(again) == whole
    again.close()
