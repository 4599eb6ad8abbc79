"""Files of the offline sources: local ones, and remote ones with a URI.

A file of a shared file system is local (`localpaths`), one of an object store remote (`remotepaths`).
"""

import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self, TypeVar

from rmqlab.pipeline.errors import NoPathError
from rmqlab.pipeline.options import OptionError
from rmqlab.pipeline.paths.localpaths import local_paths
from rmqlab.pipeline.paths.remotepaths import RemotePath, fetch, is_remote, remote_paths

T = TypeVar("T")
AnyPath = Path | RemotePath


class SourcePath(Protocol):
    """The common interface of `pathlib.Path` and `RemotePath`."""

    @property
    def name(self) -> str: ...
    @property
    def parts(self) -> tuple[str, ...]: ...
    @property
    def parent(self) -> Self: ...
    def __truediv__(self, key: str, /) -> Self: ...
    def __lt__(self, other: Self, /) -> bool: ...
    def absolute(self) -> Self: ...
    def is_dir(self) -> bool: ...
    def is_file(self) -> bool: ...
    def iterdir(self) -> Iterator[Self]: ...
    def glob(self, pattern: str, /) -> Iterator[Self]: ...
    def read_text(self) -> str: ...


def given_paths(path: str, paths: Sequence[str], *, source: str, meaning: str) -> Sequence[str]:
    """Return the values of options `path` and `paths`, of which one is needed.

    `meaning` is that of a path. Raises OptionError.
    """
    if path and paths:
        raise OptionError(f"{source}: options path and paths exclude each other: name all of them in paths")
    if not path and not paths:
        raise OptionError(f"{source}: option path is needed: {meaning}")
    return paths or (path,)


def find_all(paths: Iterable[str], find: Callable[[AnyPath], Iterable[T]], *, empty: type[Exception]) -> list[T]:
    """Return the concatenated results of `find` for all paths.

    `find` raises `empty` for a path without content. For a glob pattern that is an error only if it is raised for
    every match: `runs/*` may match a note in the same directory. Raises NoPathError if a pattern matches nothing.
    """
    found: list[T] = []
    for text in paths:
        matches: Sequence[AnyPath] = remote_paths(text) if is_remote(text) else local_paths(text)
        failures = []
        for path in matches:
            try:
                found += find(path)
            except empty as exc:
                failures.append(exc)
        if len(failures) == len(matches):
            raise failures[0]
    return found


@contextmanager
def local_file(path: str) -> Iterator[Path]:
    """Provide a file on this machine: itself, or a temporary copy of a remote one.

    Raises NoPathError if this machine, which may be a worker, does not have it.
    """
    if is_remote(path):
        with tempfile.TemporaryDirectory(prefix="rmqlab-fetched-") as directory:
            yield fetch(path, Path(directory))
        return
    if not Path(path).exists():
        raise NoPathError(
            f"{socket.gethostname()} has no {path}. Workers need stores and journals under the same path as the driver:"
            f" put them on a shared file system, or give a URI such as hdfs://host/path or s3a://bucket/path"
        )
    yield Path(path)


def address_of(path: AnyPath) -> str:
    """Return the text with which `local_file` provides a file."""
    return path.uri if isinstance(path, RemotePath) else str(path)


def size_of(path: AnyPath) -> int:
    """Return the size of a file, in bytes."""
    return path.size if isinstance(path, RemotePath) else path.stat().st_size


def range_size(path: AnyPath, wanted: int) -> int:
    """Return the size of the ranges into which to cut a file, in bytes.

    A remote file is fetched whole, so by one task.
    """
    return max(1, path.size) if isinstance(path, RemotePath) else wanted
