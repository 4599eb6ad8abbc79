"""Files that are none: each is an error, at once."""

import os
from pathlib import Path

import pytest

from rmqlab.runtime.node.logfile import open_log
from rmqlab.runtime.regularfile import open_regular, read_regular, read_regular_text


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_pipe_is_not_waited_for(pipe: Path) -> None:
    with pytest.raises(OSError, match="not a regular file") as caught:
        open_regular(pipe)
    assert caught.value.filename == str(pipe)


def test_a_log_that_is_a_pipe_is_rejected_with_and_without_a_reader(pipe: Path) -> None:
    with pytest.raises(OSError, match="No such device"):
        open_log(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError, match="a pipe, not a file"):
            open_log(pipe)
    finally:
        os.close(reader)


def test_a_log_blocks_as_before(tmp_path: Path) -> None:
    with open_log(tmp_path / "log") as file:
        assert os.get_blocking(file.fileno())


def test_a_directory_and_a_device_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        read_regular("/dev/zero")


def test_a_file_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a\r\nb")
    assert read_regular(path, 4) == b"a\r\nb"
    assert read_regular_text(path) == "a\nb"
    with pytest.raises(OSError, match="more than 3 bytes"):
        read_regular(path, 3)
