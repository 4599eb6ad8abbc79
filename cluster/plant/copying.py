"""Copies of a run's directory: holes of sparse files stay holes."""

import os
import shutil
import stat
from pathlib import Path

from rmqlab.store.files.sparse import data_ranges

_LEFT_OUT = frozenset({"audit", "report"})
"""Folders at the top of a run that a judge wrote."""


def copy_run(source: Path, target: Path) -> None:
    """Copy a run to a directory that does not exist yet.

    FileExistsError if it does, OSError.
    """

    def left_out(directory: str, names: list[str]) -> set[str]:
        here = Path(directory)
        special = {name for name in names if stat.S_IFMT((here / name).lstat().st_mode) not in _COPIED}
        return special | (_LEFT_OUT & set(names) if here == source else set())

    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, symlinks=True, ignore=left_out, copy_function=_copy_file)


_COPIED = frozenset({stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK})
"""All but sockets and pipes."""


_BLOCK = 1 << 20


def _copy_file(source: str, target: str) -> None:
    with Path(source).open("rb") as old, Path(target).open("wb") as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
        for start, end in data_ranges(old.fileno(), 0, size):
            for at in range(start, end, _BLOCK):
                os.pwrite(new.fileno(), os.pread(old.fileno(), min(_BLOCK, end - at), at), at)
    shutil.copystat(source, target)
