"""Places of a store that cannot be read are named."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from rmqlab.store.offline.irregularfiles import unreadable


def test_files_of_a_directory_that_may_only_be_listed_are_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mode r--: `os.walk` lists the files, and `stat` of each fails.

    `check` and `audit` ended with a traceback.
    """
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "missing")
    (tmp_path / "readable").touch()
    stat, access = os.stat, os.access

    def stat_outside(path: Any, **kwargs: Any) -> os.stat_result:
        if Path(os.fsdecode(path)).parent == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **kwargs)

    def access_outside(path: Any, mode: int, **kwargs: Any) -> bool:
        return Path(os.fsdecode(path)).parent != folder and access(path, mode, **kwargs)

    monkeypatch.setattr(os, "stat", stat_outside)
    monkeypatch.setattr(os, "access", access_outside)
    assert list(unreadable(tmp_path)) == [folder / "file"]
