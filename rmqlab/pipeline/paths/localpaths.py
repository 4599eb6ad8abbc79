"""Convert the paths of the offline sources to local paths.

Sources accept plain paths, `file:` URIs and glob patterns. The only I/O is listing directories.
"""

import glob
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rmqlab.pipeline.errors import NoPathError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_LOCAL_HOSTS = ("", "localhost")


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
    unique = {os.path.realpath(match): match for match in matches}  # `resolve` fails at a loop of links
    return sorted(unique.values())


def _local_part(text: str) -> str:
    if not _SCHEME.match(text):
        return text
    if not text.lower().startswith("file:"):
        scheme = text.partition(":")[0]
        raise NoPathError(f"{text} has no //; expected {scheme}://host/path, a path, a glob pattern or file:///path")
    # Quote before the URI is split: a glob's `?` does not start a query.
    parts = urlsplit(text.replace("?", "%3F").replace("#", "%23"))
    if parts.netloc.lower() not in _LOCAL_HOSTS:
        raise NoPathError(f"{text} names host {parts.netloc}; expected file:///path, or file:/path")
    if not parts.path.startswith("/"):
        raise NoPathError(f"{text} is relative; expected file:///path, or file:/path")
    return unquote(parts.path)
