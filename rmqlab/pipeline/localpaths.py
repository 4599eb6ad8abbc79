"""Convert the paths of the offline sources to local paths.

Sources accept plain paths, `file:` URIs and glob patterns. The only I/O is listing directories.
"""

import glob
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

T = TypeVar("T")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_LOCAL_HOSTS = ("", "localhost")


class NoPathError(Exception):
    """A path is not local, or its pattern matches nothing.

    The text says what was expected.
    """


def find_all(paths: Iterable[str], find: Callable[[Path], Iterable[T]], *, empty: type[Exception]) -> list[T]:
    """Return the concatenated results of `find` for all paths.

    `find` raises `empty` for a path without content. For a glob pattern that is an error only if it is raised for
    every match: `runs/*` may match a note in the same directory. Raises NoPathError if a pattern matches nothing.
    """
    found: list[T] = []
    for text in paths:
        matches = local_paths(text)
        failures = []
        for path in matches:
            try:
                found += find(path)
            except empty as exc:
                failures.append(exc)
        if len(failures) == len(matches):
            raise failures[0]
    return found


def local_paths(text: str) -> list[Path]:
    """Return the absolute paths for a path, a `file:` URI or a glob pattern.

    Raises NoPathError. An existing path is used literally, even if it contains `*`, `?` or `[`. Links to a directory
    that is also another match are omitted: `runs/demo/*` also matches the link `latest`.
    """
    path = Path(_local_part(text)).expanduser().absolute()
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matches = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))), key=Path.is_symlink, reverse=True)
    if not matches:
        raise NoPathError(f"nothing matches {text}")
    unique = {match.resolve(): match for match in matches}
    return sorted(unique.values())


def _local_part(text: str) -> str:
    if not _SCHEME.match(text):
        return text
    if not text.lower().startswith("file:"):
        scheme = text.partition(":")[0]
        raise NoPathError(
            f"{text} is a {scheme} URI; expected a path, a glob pattern or a file: URI. Copy the files, or mount them"
        )
    # Quote before the URI is split: a glob's `?` does not start a query.
    parts = urlsplit(text.replace("?", "%3F").replace("#", "%23"))
    if parts.netloc.lower() not in _LOCAL_HOSTS:
        raise NoPathError(f"{text} names host {parts.netloc}; expected file:///path, or file:/path")
    if not parts.path.startswith("/"):
        raise NoPathError(f"{text} is relative; expected file:///path, or file:/path")
    return unquote(parts.path)
