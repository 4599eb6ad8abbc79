"""Files of object stores and HDFS, with the methods of `pathlib.Path` in use.

Every URI of Arrow's file systems is valid (`s3:`, `gs:`, `abfs:`, `hdfs:`), and `s3a:`, which is read as `s3:`. Other
schemes need the package fsspec and its package for the scheme. Credentials are those of the file system's own library,
not Spark's settings `spark.hadoop.fs.*`; a query such as `?region=eu-west-1&endpoint_override=host:port` is passed on.

A tree is listed once, when a source is created. Its files are fetched whole, each by one task.
"""

import fnmatch
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

import attrs

from rmqlab.pipeline.errors import NoPathError
from rmqlab.pipeline.paths import hadoop

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<host>[^/?]*)(?P<path>[^?]*)(?P<query>\?.*)?")
_MAGIC = re.compile(r"[*\[]")
_SAME: Final = {"s3a": "s3", "s3n": "s3"}
_BLOCK_BYTES: Final = 2**20


@attrs.frozen
class RemoteTree:
    """The files below one URI."""

    root: str
    """The URI up to the host, with a name and password if it was given with them."""
    query: str
    sizes: Mapping[str, int] = attrs.field(factory=dict)
    """Bytes of each file, by its path in the URI."""


@attrs.frozen(order=False)
class RemotePath:
    """A file or directory of a tree. Directories are those that contain files."""

    tree: RemoteTree = attrs.field(repr=False, eq=False)
    path: PurePosixPath

    def __str__(self) -> str:
        return shown(self.uri)

    def __lt__(self, other: "RemotePath") -> bool:
        return self.path < other.path  # part by part, as local paths: `a/b` before `a-b`

    def __truediv__(self, name: str) -> "RemotePath":
        return self._at(self.path / name)

    @property
    def uri(self) -> str:
        """The URI, with a name and password if it was given with them."""
        return f"{self.tree.root}{quote(str(self.path))}{self.tree.query}"

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def parts(self) -> tuple[str, ...]:
        return self.path.parts

    @property
    def parent(self) -> "RemotePath":
        return self._at(self.path.parent)

    @property
    def size(self) -> int:
        return self.tree.sizes[str(self.path)]

    def absolute(self) -> "RemotePath":
        return self

    def is_file(self) -> bool:
        return str(self.path) in self.tree.sizes

    def is_dir(self) -> bool:
        return any(True for _ in self.iterdir())

    def iterdir(self) -> Iterator["RemotePath"]:
        return self.glob("*")

    def glob(self, pattern: str) -> Iterator["RemotePath"]:
        """Yield the files and directories whose path below this one matches, part by part."""
        wanted, depth = pattern.split("/"), len(self.parts)
        found = {
            PurePosixPath(*parts[: depth + len(wanted)])
            for parts in (PurePosixPath(file).parts for file in self.tree.sizes)
            if parts[:depth] == self.parts
            and len(parts) >= depth + len(wanted)
            and all(map(fnmatch.fnmatchcase, parts[depth:], wanted))
        }
        return map(self._at, sorted(found))

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def read_bytes(self, limit: int | None = None) -> bytes:
        """Return the content, or its first bytes. Raises FileNotFoundError or NoPathError."""
        if not self.is_file():
            raise FileNotFoundError(str(self))
        with _opened(self) as (filesystem, inner), filesystem.open_input_file(inner) as file:
            content: bytes = file.read(limit)
            return content

    def _at(self, path: PurePosixPath) -> "RemotePath":
        return RemotePath(self.tree, path)


def shown(path: str) -> str:
    """Return a path unchanged, or a URI for people: without password and query."""
    if (found := _URI.fullmatch(path)) is None:
        return path
    user, at, host = found["host"].rpartition("@")
    return f"{found['scheme']}://{user.partition(':')[0]}{at}{host}{unquote(found['path'])}"


def is_remote(path: str) -> bool:
    """Return True for a URI that is not a `file:` URI."""
    found = _URI.match(path)
    return found is not None and found["scheme"].lower() != "file"


def remote_paths(uri: str) -> list[RemotePath]:
    """Return the file or directory of a URI, or all that match its pattern.

    Patterns have `*` and `[...]`. Raises NoPathError if there is none, or if the file system cannot be used.
    """
    tree, path = _split(uri)
    count = next((at for at, part in enumerate(path.parts) if _MAGIC.search(part)), len(path.parts))
    top, pattern = PurePosixPath(*path.parts[:count]), "/".join(path.parts[count:])
    root = RemotePath(attrs.evolve(tree, sizes=_list(RemotePath(tree, top))), top)
    matches = list(root.glob(pattern)) if pattern else [root] * bool(root.tree.sizes)
    if not matches:
        raise NoPathError(f"nothing matches {shown(uri)}" if pattern else f"there are no files at {shown(uri)}")
    return matches


def fetch(uri: str, directory: Path) -> Path:
    """Copy a file into a local directory, under its name, and return it.

    Zeros at its end become a hole, as brokers leave it behind the last record. Raises NoPathError.
    """
    path = RemotePath(*_split(uri))
    copy = directory / path.name
    with (
        _opened(path) as (filesystem, inner),
        filesystem.open_input_stream(inner) as remote,
        copy.open("wb") as local,
    ):
        size = end = 0
        while block := remote.read(_BLOCK_BYTES):
            local.write(block)
            if content := block.rstrip(b"\0"):
                end = size + len(content)
            size += len(block)
        local.truncate(end)
        local.truncate(size)
    return copy


def _split(uri: str) -> tuple[RemoteTree, PurePosixPath]:
    if (found := _URI.fullmatch(uri)) is None:
        raise NoPathError(f"{shown(uri)} is not a URI; expected scheme://host/path")
    tree = RemoteTree(f"{found['scheme']}://{found['host']}", found["query"] or "")
    return tree, PurePosixPath("/" + unquote(found["path"]).lstrip("/"))


def _list(path: RemotePath) -> dict[str, int]:
    """Return the size of the file, or of all files below the directory, by path."""
    with _opened(path) as (filesystem, inner):
        found = filesystem.get_file_info(inner)
        if found.is_file:
            return {str(path.path): found.size}
        sizes = _sizes_below(filesystem, inner)
    return {str(path.path / PurePosixPath(file).relative_to(inner)): size for file, size in sizes}


def _sizes_below(filesystem: "FileSystem", directory: str) -> list[tuple[str, int]]:
    """Return all files below a directory, with their sizes; none if it is missing.

    Raises OSError if any directory cannot be listed: a shorter list would look complete.
    """
    from pyarrow.fs import FileSelector, FileType, FSSpecHandler, PyFileSystem  # noqa: PLC0415 - slow, rarely needed

    try:
        if isinstance(filesystem, PyFileSystem) and isinstance(filesystem.handler, FSSpecHandler):
            # Arrow's FileSelector uses `find`, which omits directories that it cannot list.
            # Its `walk` also yields links, and the entry of the directory itself that object stores have.
            walk = filesystem.handler.fs.walk(directory, detail=True, on_error="raise")
            found = (entry for _, _, entries in walk for entry in entries.values() if entry["type"] == "file")
            return [(str(entry["name"]), int(entry["size"])) for entry in found]
        # With allow_not_found, Arrow returns an empty list for a namenode that does not respond.
        below = filesystem.get_file_info(FileSelector(directory, recursive=True))
    except FileNotFoundError:
        if filesystem.get_file_info(directory).type == FileType.Directory:
            raise
        return []
    return [(info.path, info.size) for info in below if info.is_file]


@contextmanager
def _opened(path: RemotePath) -> "Iterator[tuple[FileSystem, str]]":
    """Provide the file system of a path, and the path in it.

    Raises NoPathError, also for errors of the file system in the block.
    """
    scheme = path.tree.root.partition(":")[0].lower()
    where = f"{socket.gethostname()} cannot read {path}"
    try:
        filesystem, inner = _filesystem(scheme, f"{path.tree.root}/{path.tree.query}")
        yield filesystem, inner.rstrip("/") + str(path.path)
    except ImportError:
        raise NoPathError(f"{where}: install fsspec, and its package for {scheme}:") from None
    except (OSError, ValueError) as exc:
        needs = f". {hadoop.NEEDS}" if scheme in hadoop.SCHEMES else ""
        raise NoPathError(f"{where}: {(str(exc).splitlines() or [type(exc).__name__])[0]}{needs}") from None


def _filesystem(scheme: str, root: str) -> "tuple[FileSystem, str]":
    """Return the file system of a URI without a path, and the prefix of its paths."""
    from pyarrow import ArrowInvalid  # noqa: PLC0415 - as above
    from pyarrow.fs import FileSystem  # noqa: PLC0415

    if scheme in hadoop.SCHEMES:
        hadoop.set_class_path()
        if hadoop.is_default(root):
            return hadoop.open_default(), ""
    known = f"{_SAME.get(scheme, scheme)}{root[len(scheme) :]}"
    try:
        opened: tuple[FileSystem, str] = FileSystem.from_uri(known)
    except ArrowInvalid as exc:
        if "Unrecognized filesystem type" not in str(exc):
            raise
        opened = FileSystem.from_uri(f"fsspec+{known}")
    return opened
