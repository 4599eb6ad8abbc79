"""The files `abort` and `checkpoint` against the end of a broker and its log."""

from pathlib import Path

import pytest

from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.stopfiles import odd_log_files, stop_file_warnings
from rmqlab.store.testing import SOME_DAY, ManualClock, new_message, small_config


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a store that was closed in good order, with one message."""
    store = MessageStore.open(small_config(tmp_path / "store"), now_millis=ManualClock())
    store.put(new_message())
    store.close()
    return tmp_path / "store"


def test_the_marks_of_a_stop_in_good_order_contradict_nothing(root: Path) -> None:
    assert list(stop_file_warnings(root, was_clean=True, latest=SOME_DAY)) == []


def test_abort_after_a_stop_in_good_order(root: Path) -> None:
    (root / "abort").touch()
    (line,) = stop_file_warnings(root, was_clean=True, latest=SOME_DAY)
    assert line.startswith("store/abort exists")


def test_abort_of_a_stop_on_a_full_disk_is_named_with_its_legal_cause(tmp_path: Path) -> None:
    store = MessageStore.open(small_config(tmp_path / "store"), now_millis=ManualClock())
    store.cleaner.is_disk_full = True
    store.close()
    (line,) = stop_file_warnings(tmp_path / "store", was_clean=True, latest=None)
    assert "a full or failing disk, or records without queue entries, leave it as well" in line


def test_no_abort_after_a_kill(root: Path) -> None:
    (line,) = stop_file_warnings(root, was_clean=False, latest=SOME_DAY)
    assert line.startswith("store/abort is missing")
    (root / "abort").touch()
    assert list(stop_file_warnings(root, was_clean=False, latest=SOME_DAY)) == []


def test_a_checkpoint_of_messages_that_the_log_does_not_have(root: Path) -> None:
    (line,) = stop_file_warnings(root, was_clean=True, latest=SOME_DAY - 1)
    assert line.startswith(
        f"store/checkpoint has the store time {SOME_DAY}, and the last record of the log {SOME_DAY - 1}"
    )


def test_missing_and_odd_checkpoints_prove_nothing_after_a_kill_or_without_messages(root: Path) -> None:
    (root / "checkpoint").unlink()
    (root / "abort").touch()
    assert list(stop_file_warnings(root, was_clean=False, latest=SOME_DAY)) == []
    (root / "checkpoint").mkdir()
    assert list(stop_file_warnings(root, was_clean=False, latest=SOME_DAY)) == []
    (root / "abort").unlink()
    assert list(stop_file_warnings(root, was_clean=True, latest=None)) == []


def test_a_missing_or_invalid_checkpoint_after_a_stop_in_good_order(root: Path) -> None:
    path = root / "checkpoint"
    for content, message in ((b"", "has 0 bytes"), (b"\xff" * 4096, "has a negative store time")):
        path.write_bytes(content)
        assert [message in line for line in stop_file_warnings(root, was_clean=True, latest=SOME_DAY)] == [True]
    path.unlink()
    (line,) = stop_file_warnings(root, was_clean=True, latest=SOME_DAY)
    assert line.startswith("store/checkpoint is missing")


def test_log_files_that_no_broker_writes(root: Path) -> None:
    assert list(odd_log_files(root)) == []
    (root / "commitlog" / "notes").touch()
    (root / "commitlog" / f"{10**6:020}").touch()
    first, second = odd_log_files(root)
    assert "commitlog/notes has no name of a log file" in first
    assert f"{10**6:020} has 0 bytes" in second


def test_queue_files_with_other_sizes_or_names_are_named(root: Path) -> None:
    (queue,) = (root / "consumequeue").glob("*/0")
    (queue / "notes").touch()
    (queue / f"{10**6:020}").write_bytes(bytes(20))
    first, second = odd_log_files(root)
    assert f"store/consumequeue/{queue.parent.name}/0/notes has no name of a queue file" in first
    assert f"{queue.parent.name}/0/{10**6:020} has 20 bytes" in second
