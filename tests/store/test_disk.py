"""Small files, read as a whole."""

import os
from pathlib import Path

import pytest

from rmqlab.store.files.checkpoint import Checkpoint
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.lock import AbortFile


def test_paths_that_are_not_files_are_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, text in (("pipe", "not a regular file"), ("folder", "Is a directory")):
        with pytest.raises(OSError, match=text) as caught:
            Disk().read_file(tmp_path / name, 100)
        assert caught.value.filename == str(tmp_path / name)


def sparse(path: Path, size: int) -> Path:
    """A file of so many zeros that takes no space."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_a_file_above_its_limit_is_not_read(tmp_path: Path) -> None:
    path = sparse(tmp_path / "table", 2**40)
    with pytest.raises(OSError, match="more than 1000 bytes"):
        Disk().read_file(path, 1000)
    assert Disk().read_start(path, 24) == bytes(24)


def test_a_disk_that_fails_does_not_make_a_crash_a_clean_stop(tmp_path: Path) -> None:
    """A name that is too long stands for any error but a missing file."""
    with pytest.raises(OSError, match="too long"):
        _ = AbortFile(tmp_path / ("abort" * 100)).exists
    assert not AbortFile(tmp_path / "abort").exists


def test_a_pipe_in_the_place_of_a_file_to_write_is_an_error(tmp_path: Path) -> None:
    """It would wait for a reader."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        Disk().write_file(tmp_path / "pipe", b"1")
    with pytest.raises(OSError, match="not a regular file"):
        AbortFile(tmp_path / "pipe").create()


def test_a_checkpoint_is_read_at_its_start_only(tmp_path: Path) -> None:
    """RocketMQ maps 4096 bytes of it, whatever its length."""
    path = sparse(tmp_path / "checkpoint", 2**40)
    with path.open("r+b") as file:
        file.write((5).to_bytes(8, "big"))
    assert Checkpoint.load(path).physic_msg_timestamp == 5
