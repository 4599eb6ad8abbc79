"""A start that makes queues again ends at any call of the disk.

It is killed, or loses power. The next start mends the rest. The disk forgets what was not synced (`forgetfuldisk`).
"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs
import pytest

from rmqlab.store.files.checkpoint import Checkpoint
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.lock import forget_locks
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.queue.queueends import ENDS_FILE
from rmqlab.store.testing import ManualClock, new_message, small_config
from tests.store.forgetfuldisk import (
    ForgetfulDisk,
    Forgets,
    Killed,
    copy_store,
    forgets_all,
    forgets_even,
    forgets_odd,
)
from tests.store.sweepworkload import kill

QUEUES: Final = (("orders", 0), ("orders", 1), ("pay", 0))
COUNT: Final = 1200
"""Messages of each queue: five files of two pages.

A start without a crash checks the last three.
"""
Damage = Callable[[Path], None]


def opened(root: Path, disk: Disk | None = None) -> MessageStore:
    config = small_config(root, mapped_file_size_consume_queue=260 * 20, max_index_num=1500)
    return MessageStore.open(config, now_millis=ManualClock(step=20), disk=disk)


def flush(store: MessageStore) -> None:
    for job in (store.flush_job(), store.flush_queues_job()):
        if job is not None:
            job.run()
            store.flushed(job)


def entries_of(store: MessageStore) -> dict[tuple[str, int], bytes]:
    return {
        (queue.topic, queue.queue_id): b"".join(bytes(file.view[: file.wrote]) for file in queue.files.files)
        for queue in store.queues
    }


@attrs.frozen
class Base:
    """A store that stopped in good order, and its entries."""

    root: Path
    entries: dict[tuple[str, int], bytes]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    root = tmp_path_factory.mktemp("base") / "store"
    store = opened(root)
    for number, (topic, queue_id) in itertools.product(range(COUNT), QUEUES):
        store.put(new_message(topic=topic, queue_id=queue_id, tags="AB"[number % 2], keys=f"k{number}"))
    entries = entries_of(store)
    store.close()
    return Base(root, entries)


# ---- damage ----


def lose_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "orders" / "0")


def lose_middle(root: Path) -> None:
    """No file of ends, as in a store of RocketMQ."""
    (root / ENDS_FILE).unlink()
    path = sorted((root / "consumequeue" / "orders" / "0").iterdir())[-3]
    path.write_bytes(path.read_bytes()[:1000].ljust(path.stat().st_size, b"\0"))


def tear_end(root: Path) -> None:
    path = max((root / "consumequeue" / "pay" / "0").iterdir())
    path.write_bytes(path.read_bytes()[: 100 * 20 + 9].ljust(path.stat().st_size, b"\0"))


def swap_queues(root: Path) -> None:
    queues = root / "consumequeue"
    for source, target in (("orders/0", "swap"), ("pay/0", "orders/0"), ("swap", "pay/0")):
        (queues / source).rename(queues / target)


def copy_later(root: Path) -> None:
    files = sorted((root / "consumequeue" / "orders" / "1").iterdir())
    files[2].write_bytes(files[3].read_bytes())


DAMAGES: Final = [lose_queue, lose_middle, tear_end, swap_queues, copy_later]
LOSSES: Final[list[tuple[Forgets, bool]]] = [
    (forgets_all, True),
    (forgets_all, False),
    (forgets_even, True),
    (forgets_odd, True),
    (forgets_odd, False),
]
"""Which pages a power loss reverts, and whether names of files stay."""


# ---- the sweep ----


def calls_of(damaged: Path, root: Path) -> int:
    """Return the number of disk calls of a start and a flush."""
    copy_store(damaged, root)
    disk = ForgetfulDisk(root=root)
    store = opened(root, disk)
    flush(store)
    count = len(disk.names)
    kill(store)
    return count


def play_until(at: int, damaged: Path, root: Path) -> ForgetfulDisk:
    """Start and flush a damaged store until call `at`."""
    copy_store(damaged, root)
    disk = ForgetfulDisk(at, root=root)
    store = None
    try:
        store = opened(root, disk)
        flush(store)
    except Killed:
        forget_locks(root)
    if store is not None:
        kill(store)
    return disk


def faults_after(base: Base, root: Path) -> Iterator[str]:
    store = opened(root)
    found = entries_of(store)
    yield from (f"{queue} is not whole" for queue in QUEUES if found.get(queue) != base.entries[queue])
    if store.put(new_message()).queue_offset != COUNT:
        yield "a new message does not follow the last one"
    store.close()


def sweep(base: Base, damage: Damage, root: Path, points: Callable[[int], Iterator[int] | range]) -> list[str]:
    damaged = root / "damaged"
    copy_store(base.root, damaged)
    damage(damaged)
    wrong = []
    for at in points(calls_of(damaged, root / "life")):
        for loss in (None, *LOSSES):
            disk = play_until(at, damaged, root / "life")
            if loss is not None:
                disk.lose_power(loss[0], keeps_names=loss[1])
            what = f"{at}: {disk.names[-1]}, {'killed' if loss is None else f'{loss[0].__name__}, {loss[1]}'}"
            wrong += [f"{what}: {fault}" for fault in faults_after(base, root / "life")]
    return wrong


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_start_that_makes_queues_again_may_end_at_any_call(base: Base, damage: Damage, quick_path: Path) -> None:
    """A sample; `make sweep` tries all."""
    assert not sweep(base, damage, quick_path, lambda calls: range(calls, 60, -15))


@pytest.mark.parametrize("damage", DAMAGES)
def test_rocketmq_dispatches_the_whole_log_after_such_a_start(base: Base, damage: Damage, quick_path: Path) -> None:
    """It begins with the file that the checkpoint names, if there is `abort`."""
    copy_store(base.root, quick_path / "damaged")
    damage(quick_path / "damaged")
    root = quick_path / "life"
    copy_store(quick_path / "damaged", root)
    store = opened(root)
    kill(store)
    assert (root / "abort").exists()
    assert Checkpoint.load(root / "checkpoint").safe_timestamp < 0
    store = opened(root)
    flush(store)
    kill(store)
    claimed, before = Checkpoint.load(root / "checkpoint"), Checkpoint.load(base.root / "checkpoint")
    assert claimed.logics_msg_timestamp == before.logics_msg_timestamp


def test_an_index_file_that_was_made_again_is_not_trusted_before_its_flush(base: Base, quick_path: Path) -> None:
    root = quick_path / "life"
    copy_store(base.root, root)
    first, *lost = sorted((root / "index").iterdir())
    assert len(lost) > 1
    for path in lost:
        path.write_bytes(b"no head" * 100)
    disk = ForgetfulDisk(root=root)
    kill(opened(root, disk))
    disk.lose_power(lambda number: number > 0, keeps_names=True)
    store = opened(root)
    assert store.index is not None
    assert store.index.files[0].file.path == first
    for number in range(0, COUNT, 50):
        assert len(store.query("orders", f"k{number}", 32, 0, 2**62).buffers) == 2
    store.close()


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("damage", DAMAGES)
def test_such_a_start_ends_at_every_call(base: Base, damage: Damage, quick_path: Path) -> None:
    assert not sweep(base, damage, quick_path, range)
