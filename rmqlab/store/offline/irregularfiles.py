"""Finds paths of a store that are not regular files, or are not readable.

A judge cannot read a pipe, a device or a loop of symbolic links. Commands name these paths, to explain missing
evidence.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rmqlab.store.log.loglayout import log_directory

_FILES: Final = {"commitlog": "*", "data": "*", "index": "*", "consumequeue": "*/*/*"}
"""Glob pattern of the files in each directory. `config` is left out: the readers of its tables report errors."""


def irregular_paths(run: Path) -> Iterator[tuple[Path, str]]:
    """Yield irregular paths of a run or cluster, each with the problem.

    Missing files are not reported.
    """
    for store, problem in store_places(run):
        node = store.parent.name
        if problem:
            yield store, f"{problem}: expected the store of {node}"
            continue
        if not _is(store, stat.S_ISDIR):
            yield store, f"not a directory: expected the store of {node}"
            continue
        for path in (log_directory(store), store / "consumequeue", store / "index", store / "config"):
            if path.is_symlink() or path.exists():
                yield from _irregular_in(path, node)


def store_places(run: Path) -> Iterator[tuple[Path, str]]:
    """Yield the store of each node of a run, and why it cannot be read.

    The reason is empty for a store that can be read.

    `Path.glob` leaves out a store in a directory that this user may not enter.
    """
    for store in sorted(node / "store" for node in run.iterdir()):
        try:
            store.lstat()
        except PermissionError as exc:
            yield store, str(exc.strerror)
        except OSError:  # missing, or below a file
            continue
        else:
            yield store, ""


def unreadable(path: Path) -> Iterator[Path]:
    """Yield a path, and the paths below it, that this user has no permission to read.

    `Path.glob` treats a directory without permission as empty, so its callers check with this function.
    """
    failures: list[OSError] = []
    for folder, _, names in os.walk(path, onerror=failures.append):
        paths = (Path(folder, name) for name in sorted(names))
        yield from (path for path in paths if not _may_read(path))
    yield from (Path(exc.filename) for exc in failures if isinstance(exc, PermissionError))


def _may_read(path: Path) -> bool:
    """Return False if the permission to read is missing.

    True for dangling links, and for files that were deleted meanwhile. `Path.exists` raises PermissionError in a
    directory with read but without search permission.
    """
    try:
        return os.access(path, os.R_OK) or not path.exists()
    except PermissionError:
        return False


def why_unreadable(path: Path) -> str:
    """Name the first of `unreadable`; empty without one."""
    first = next(unreadable(path), None)
    return "" if first is None else f"{first} cannot be read"


def _irregular_in(folder: Path, node: str) -> Iterator[tuple[Path, str]]:
    if not _is(folder, stat.S_ISDIR):
        yield folder, f"not a directory: expected files of the store of {node}"
        return
    if folder.name not in _FILES:
        return
    try:
        paths = sorted(folder.glob(_FILES[folder.name]))
    except OSError as exc:
        yield folder, f"{exc.strerror}: expected files of the store of {node}"
        return
    for path in paths:
        if not _is(path, stat.S_ISREG):
            yield path, f"not a regular file: expected one of the store of {node}"
    for path in unreadable(folder):
        yield path, f"it cannot be read: expected files of the store of {node}"


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(path.stat().st_mode)
    except OSError:  # a loop of links, or a dangling link
        return False
