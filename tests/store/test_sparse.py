"""Files of which little was written are not read as a whole (issue 12.12)."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqlab.store.files import sparse
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.sparse import first_hole, zero_from
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.powerloss import lose_unsynced
from rmqlab.store.testing import new_message

Open = Callable[..., MessageStore]

BLOCK = 2**20
SIZE = 2**30


@pytest.fixture(params=["holes", "no lseek", "refused"])
def any_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """File systems that know of holes, and others. True for the former."""
    if request.param == "no lseek":
        monkeypatch.setattr(sparse, "SEEK_DATA", None)
        monkeypatch.setattr(sparse, "SEEK_HOLE", None)
    if request.param == "refused":

        def refuse(_descriptor: int, _at: int, _whence: int) -> int:
            raise OSError(errno.EINVAL, "no such whence")

        monkeypatch.setattr(os, "lseek", refuse)
    return bool(request.param == "holes")


def make_sparse(path: Path, size: int, parts: dict[int, bytes]) -> None:
    with path.open("wb") as file:
        file.truncate(size)
        for at, data in parts.items():
            file.seek(at)
            file.write(data)


def test_zeroing_finds_the_last_byte_wherever_holes_are(tmp_path: Path, any_system: bool) -> None:  # noqa: FBT001
    del any_system
    path = tmp_path / "file"
    parts = {0: b"kept", 3 * BLOCK: b"x" * BLOCK, 5 * BLOCK - 2: b"last"}
    make_sparse(path, 8 * BLOCK, parts)
    assert zero_from(path, 2, Disk()) == 5 * BLOCK + 2
    assert path.read_bytes() == b"ke".ljust(8 * BLOCK, b"\0")
    assert zero_from(path, 2, Disk()) == 0
    assert zero_from(path, 9 * BLOCK, Disk()) == 0


def test_the_first_hole_is_not_before_the_end_of_the_data(tmp_path: Path, any_system: bool) -> None:  # noqa: FBT001
    path = tmp_path / "file"
    make_sparse(path, 8 * BLOCK, {0: b"x" * 5000, 4 * BLOCK: b"y"})
    hole = first_hole(path, 8 * BLOCK, Disk())
    assert 5000 <= hole <= 4 * BLOCK if any_system else hole == 8 * BLOCK
    make_sparse(path, 0, {})
    assert first_hole(path, 0, Disk()) == 0


def test_a_power_loss_reads_what_was_written_of_a_gibibyte(open_store: Open, read_sizes: list[int]) -> None:
    store = open_store(mapped_file_size_commit_log=SIZE, mapped_file_size_consume_queue=6_000_000)
    end = [store.put(new_message()).end_offset for _ in range(60)][-1]
    store.close()
    (store.config.store_path_root_dir / "config" / "rmqlab.flushed").write_bytes(bytes(16))
    lost = lose_unsynced(store.config)
    assert (lost.log_bytes, lost.messages) == (end, 60)
    assert 0 < sum(read_sizes) < 4 * BLOCK


def test_a_start_after_a_kill_reads_what_was_written_of_the_queues(open_store: Open, read_sizes: list[int]) -> None:
    """Also if a power loss left disordered entries after the end of a queue."""
    store = open_store(mapped_file_size_consume_queue=6_000_000)
    for number in range(30):
        store.put(new_message(topic=f"T{number}"))
    store.close()
    store._abort.create()
    again = open_store(mapped_file_size_consume_queue=6_000_000)
    assert {again.max_queue_offset(f"T{number}", 0) for number in range(30)} == {1}
    assert sum(read_sizes) < 30 * 64 * 1024
