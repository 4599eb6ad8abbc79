"""Holes are not read through mappings.

On a full tmpfs, SIGBUS would end the process.
"""

from pathlib import Path

import attrs
import pytest

from rmqlab.store.files.disk import Disk
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config


@attrs.define(eq=False)
class NotingDisk(Disk):
    """Notes the blocks of files that it deletes."""

    blocks: dict[str, int] = attrs.field(factory=dict)

    def unlink(self, path: Path) -> None:
        if path.exists():
            self.blocks[path.name] = path.stat().st_blocks
        super().unlink(path)


def opened(root: Path, disk: Disk | None = None, slots: int = 100) -> MessageStore:
    config = small_config(root, max_hash_slot_num=slots)
    return MessageStore.open(config, now_millis=ManualClock(step=1), disk=disk)


def make_holes(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("begin", [64, 128], ids=["next", "behind a gap"])
def test_a_start_does_not_read_a_file_of_the_log_without_data(tmpfs_path: Path, begin: int, is_clean: bool) -> None:  # noqa: FBT001
    """As RocketMQ leaves one, which allocates the next file ahead."""
    store = opened(tmpfs_path)
    result = store.put(new_message())
    store.close()
    if not is_clean:
        (tmpfs_path / "abort").touch()
    path = tmpfs_path / "commitlog" / f"{begin * 1024:020d}"
    make_holes(path, 64 * 1024)
    disk = NotingDisk()
    again = opened(tmpfs_path, disk)
    assert again.max_commit_log_offset == result.end_offset
    assert disk.blocks[path.name] == 0
    again.close()


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
def test_a_start_does_not_read_behind_the_data_of_a_file(tmpfs_path: Path, is_clean: bool) -> None:  # noqa: FBT001
    store = opened(tmpfs_path)
    size = store.put(new_message(b"")).end_offset
    store.put(new_message(b"x" * (4096 - 2 * size)))
    assert store.max_commit_log_offset == 4096
    store.close()
    if not is_clean:
        (tmpfs_path / "abort").touch()
    path = tmpfs_path / "commitlog" / f"{0:020d}"
    raw = path.read_bytes()[:4096]
    make_holes(path, 64 * 1024)
    with path.open("r+b") as file:
        file.write(raw)
    blocks = path.stat().st_blocks
    again = opened(tmpfs_path)
    assert again.max_commit_log_offset == 4096
    assert path.stat().st_blocks == blocks
    again.close()


def test_a_start_does_not_read_an_index_file_without_data(tmpfs_path: Path) -> None:
    """As a full disk leaves one between its creation and its first entry."""
    opened(tmpfs_path).close()
    path = tmpfs_path / "index" / "20261128101112131"
    path.parent.mkdir()
    make_holes(path, 40 + 4 * 100 + 20 * 400)
    opened(tmpfs_path).close()
    assert path.stat().st_blocks == 0


def test_a_query_does_not_read_slots_without_data(tmpfs_path: Path) -> None:
    store = opened(tmpfs_path, slots=500_000)
    store.put(new_message(keys="known"))
    (path,) = (tmpfs_path / "index").iterdir()
    blocks = path.stat().st_blocks
    for number in range(50):
        assert not store.query("orders", f"unknown{number}", 9, 0, 2**62).buffers
    assert path.stat().st_blocks == blocks
    assert len(store.query("orders", "known", 9, 0, 2**62).buffers) == 1
    store.close()
    again = opened(tmpfs_path, slots=500_000)
    for number in range(50):
        assert not again.query("orders", f"unknown{number}", 9, 0, 2**62).buffers
    assert path.stat().st_blocks == blocks
    assert len(again.query("orders", "known", 9, 0, 2**62).buffers) == 1
    again.close()


def test_an_index_file_that_lacks_its_last_entries_is_built_again(tmp_path: Path) -> None:
    """As a copy of a store that was ended early."""
    store = opened(tmp_path)
    for number in range(400):
        store.put(new_message(keys=f"k{number}"))
    store.close()
    path, _ = sorted((tmp_path / "index").iterdir())
    raw = path.read_bytes()
    make_holes(path, len(raw))
    with path.open("r+b") as file:
        file.write(raw[:4096])
    again = opened(tmp_path)
    assert path not in (tmp_path / "index").iterdir()
    again.close()
