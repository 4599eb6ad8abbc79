"""Reports of a power loss, rejected guesses, and the wiping of a store."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.files.disk import Disk, StoreError, StoreLocked
from rmqlab.store.files.sparse import first_hole
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.powerloss import Lost, has_store, lose_unsynced, wipe_store
from rmqlab.store.offline.queueentries import read_entries
from rmqlab.store.offline.queuefile import queue_files
from rmqlab.store.testing import new_message, small_config

Open = Callable[..., MessageStore]


def test_it_says_from_where_on_and_how_many_messages_are_gone(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    end = [store.put(new_message(queue_id=number % 3)).end_offset for number in range(100)][-1]
    job = store.flush_job()
    assert job is not None
    job.run()
    store.flushed(job)
    last = [store.put(new_message(b"x" * 300, queue_id=number % 3)).end_offset for number in range(70)][-1]
    shutil.copytree(tmp_path / "store", tmp_path / "dead")
    config = small_config(tmp_path / "dead")
    lost = lose_unsynced(config)
    assert attrs.asdict(lost) == {"flushed": end, "log_bytes": last - end, "messages": 70, "queue_entries": 170}
    assert lose_unsynced(config) == Lost(flushed=end)


def test_after_a_stop_in_order_nothing_is_lost(open_store: Open) -> None:
    store = open_store()
    end = store.put(new_message()).end_offset
    store.close()
    assert lose_unsynced(store.config) == Lost(flushed=end)
    assert not (store.config.store_path_root_dir / "abort").exists()
    assert open_store().max_queue_offset("orders", 0) == 1


def test_a_store_that_never_was_loses_nothing_and_one_without_marks_is_left_alone(
    open_store: Open, tmp_path: Path
) -> None:
    assert lose_unsynced(small_config(tmp_path / "none")) == Lost()
    store = open_store()
    store.put(new_message())
    store.close()
    (store.config.store_path_root_dir / "config" / "rmqlab.flushed").unlink()
    before = (store.config.store_path_commit_log / f"{0:020d}").read_bytes()
    with pytest.raises(StoreError, match="which records what was synced"):
        lose_unsynced(store.config)
    assert (store.config.store_path_commit_log / f"{0:020d}").read_bytes() == before


def test_a_wiped_store_has_nothing_to_lose(open_store: Open) -> None:
    store = open_store()
    store.put(new_message())
    store.close()
    assert wipe_store(store.config) > 0
    assert lose_unsynced(store.config) == Lost()


def test_wiping_deletes_the_store_and_nothing_beside_it(open_store: Open) -> None:
    store = open_store()
    store.put(new_message(keys="k"))
    with pytest.raises(StoreLocked):
        wipe_store(store.config)
    store.close()
    root = store.config.store_path_root_dir
    (root / "notes.txt").write_text("not the store's")
    assert has_store(store.config)
    assert wipe_store(store.config) == 7  # log, queue and its end, index, marks, checkpoint, lock
    assert [path.name for path in root.iterdir()] == ["notes.txt"]
    assert not has_store(store.config)
    assert wipe_store(store.config) == 0
    again = open_store()
    assert again.put(new_message()).physical_offset == 0


def test_wiping_finds_a_commit_log_that_is_kept_elsewhere(open_store: Open, tmp_path: Path) -> None:
    store = open_store(store_path_commit_log=tmp_path / "log")
    store.put(new_message())
    store.close()
    wipe_store(store.config)
    assert not (tmp_path / "log").exists()


def test_a_queue_file_may_become_shorter_while_it_is_read(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a mapping, that would end the process with SIGBUS."""
    store = open_store()
    for _ in range(5):
        store.put(new_message())
    store.close()
    (path,) = queue_files(store.config.store_path_root_dir)
    hole = first_hole(path, path.stat().st_size, Disk())
    os.truncate(path, 3 * QUEUE_ENTRY_SIZE)
    monkeypatch.setattr("rmqlab.store.offline.queuefile.first_hole", lambda *_arguments: hole)
    assert len(list(read_entries(store.config.store_path_root_dir))) == 3
