"""Brokers that append and save while `check` reads: nothing that follows counts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqlab.cluster.checks import judge_directory, storereader
from rmqlab.cluster.checks.copies import NodeStore
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config
from tests.cluster.plant.smallrun import DELAYED_SENDS, QUEUES, SENDS, made_up_run, write_run

MORE = 5
Read = Callable[[str, str, Path | None], NodeStore]


def append_and_save(root: Path) -> None:
    """Store more messages in each queue, consume them, and save the offsets."""
    store = MessageStore.open(small_config(root), now_millis=ManualClock())
    for _ in range(MORE):
        for queue_id in range(QUEUES):
            store.put(new_message(queue_id=queue_id))
        store.put(new_message(topic=SCHEDULE_TOPIC))
    store.close()
    offsets = ConsumerOffsets(offset_table={"orders@shop": dict.fromkeys(range(QUEUES), SENDS // QUEUES + MORE)})
    (root / "config" / "consumerOffset.json").write_bytes(offsets.encode())
    delays = DelayOffsets(offset_table={1: DELAYED_SENDS + MORE})
    (root / "config" / "delayOffset.json").write_bytes(delays.encode())


def test_a_broker_that_saves_larger_offsets_after_its_log_was_read_is_not_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, read = write_run(made_up_run(), tmp_path / "run"), storereader.read_store

    def read_and_append(node: str, broker: str, root: Path | None) -> NodeStore:
        found = read(node, broker, root)
        if root is not None:
            append_and_save(root)
        return found

    monkeypatch.setattr(storereader, "read_store", read_and_append)
    judgement = judge_directory(run)
    ahead = {name: judgement[f"{name} broker-a"].value for name in ("offset_file_ahead", "delay_offset_ahead")}
    assert ahead == {"offset_file_ahead": 0, "delay_offset_ahead": 0}
