"""Queues of topics that were deleted and created again.

A start makes them again from a log that has the messages of both.
"""

import shutil
from pathlib import Path

import pytest

from rmqlab.store.testing import new_message
from tests.store.forgetfuldisk import ForgetfulDisk, forgets_all
from tests.store.sweepworkload import kill
from tests.store.test_queueends import COUNT, entered, opened, zero_tail


@pytest.mark.parametrize("former", [COUNT // 2, COUNT, 3 * COUNT])
@pytest.mark.parametrize("loses", ["", "all", "tail"])
def test_files_of_a_deleted_topic_bring_back_none_of_its_messages(quick_path: Path, former: int, loses: str) -> None:
    """They are put in the place of newer ones, or these are lost."""
    root = quick_path / "store"
    store, queue = opened(root), root / "consumequeue" / "orders" / "0"
    for _ in range(former):
        store.put(new_message())
        store.put(new_message(topic="pay"))
    shutil.copytree(queue, quick_path / "former")
    store.delete_topic("orders")
    for _ in range(COUNT):
        store.put(new_message(b"again"))
    whole = entered(store)
    assert len(whole["orders", 0]) == COUNT
    store.close()
    shutil.rmtree(queue)
    if loses != "all":
        shutil.copytree(quick_path / "former", queue)
    if loses == "tail":
        zero_tail(queue)
    store = opened(root)
    assert entered(store) == whole
    assert store.put(new_message()).queue_offset == COUNT
    store.close()


@pytest.mark.parametrize("keeps_names", [False, True])
@pytest.mark.parametrize("former", [COUNT // 2, 3 * COUNT])
def test_a_power_loss_after_a_topic_was_created_again(quick_path: Path, former: int, *, keeps_names: bool) -> None:
    """4.9.8 enters the messages of the deleted topic, and no others."""
    disk = ForgetfulDisk(root=quick_path)
    store = opened(quick_path, disk)
    for _ in range(former):
        store.put(new_message())
    store.delete_topic("orders")
    for _ in range(COUNT):
        store.put(new_message(b"again"))
    whole = entered(store)
    job = store.flush_job()
    assert job is not None
    job.run()
    kill(store)
    disk.lose_power(forgets_all, keeps_names=keeps_names)
    store = opened(quick_path)
    assert entered(store) == whole
    store.close()
