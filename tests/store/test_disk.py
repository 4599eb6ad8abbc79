"""Small files, read as a whole."""

import os
from pathlib import Path

import pytest

from rmqlab.store.disk import Disk


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, says in (("pipe", "not a regular file"), ("folder", "Is a directory")):
        with pytest.raises(OSError, match=says) as caught:
            Disk().read_file(tmp_path / name)
        assert caught.value.filename == str(tmp_path / name)
