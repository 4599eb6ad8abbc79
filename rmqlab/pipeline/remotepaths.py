"""Files of object stores and HDFS, behind the few methods of `pathlib.Path` that the offline sources need.

Every URI of Arrow's file systems is one (`s3:`, `gs:`, `abfs:`, `hdfs:`), and `s3a:`, which is read as `s3:`. Other
schemes need the package fsspec and its package for the scheme. Credentials are those of the file system's own library,
not Spark's settings `spark.hadoop.fs.*`; a query such as `?region=eu-west-1&endpoint_override=host:port` is passed on.

A tree is listed once, when a source is created. Its files are fetched whole, each by one task.
"""

import fnmatch
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import attrs

from rmqlab.pipeline.errors import NoPathError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<host>[^/?]*)(?P<path>[^?]*)(?P<query>\?.*)?")
_MAGIC = re.compile(r"[*\[]")
_HADOOPS: Final = ("hdfs", "viewfs")
_SAME: Final = {"s3a": "s3", "s3n": "s3"}
_BLOCK_BYTES: Final = 2**20


@attrs.frozen
class RemoteTree:
    """The files below one URI."""

    scheme: str
    host: str
    query: str
    sizes: Mapping[str, int]
    """Bytes of each file, by its path in the URI."""

    def uri(self, path: PurePosixPath) -> str:
        return f"{self.scheme}://{self.host}{path}{self.query}"


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
        return self.tree.uri(self.path)

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
        """Return the content, or its first bytes. Raises OSError."""
        filesystem, inner = _filesystem(self.uri)
        with filesystem.open_input_file(inner) as file:
            content: bytes = file.read(limit)
            return content

    def _at(self, path: PurePosixPath) -> "RemotePath":
        return RemotePath(self.tree, path)


def shown(path: str) -> str:
    """Return a path or URI without the name and password in it."""
    return re.sub(r"(?<=://)[^/@]*@", "", path)


def is_remote(path: str) -> bool:
    """Return True for a URI that is not a `file:` URI."""
    found = _URI.match(path)
    return found is not None and found["scheme"].lower() != "file"


def remote_paths(uri: str) -> list[RemotePath]:
    """Return the file or directory of a URI, or all that match its pattern of `*` and `[...]`.

    Raises NoPathError if there is none, or if the file system cannot be reached.
    """
    if (found := _URI.fullmatch(uri)) is None:
        raise NoPathError(f"{shown(uri)} is no URI; expected scheme://host/path")
    parts = PurePosixPath("/", found["path"]).parts
    count = next((at for at, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    top, pattern = PurePosixPath(*parts[:count]), "/".join(parts[count:])
    tree = RemoteTree(found["scheme"], found["host"], found["query"] or "", {})
    root = RemotePath(attrs.evolve(tree, sizes=_list(tree.uri(top), top)), top)
    matches = list(root.glob(pattern)) if pattern else [root] * bool(root.tree.sizes)
    if not matches:
        raise NoPathError(f"nothing matches {shown(uri)}" if pattern else f"there are no files at {shown(uri)}")
    return matches


def _list(uri: str, top: PurePosixPath) -> dict[str, int]:
    """Return the sizes of the file, or of all files below the directory, at a URI whose path is `top`."""
    from pyarrow.fs import FileSelector  # noqa: PLC0415 - slow to import, and rarely needed

    filesystem, base = _filesystem(uri)
    try:
        found = filesystem.get_file_info(base)
        if found.is_file:
            return {str(top): found.size}
        below = filesystem.get_file_info(FileSelector(base, allow_not_found=True, recursive=True))
    except OSError as exc:
        raise NoPathError(f"{shown(uri)} cannot be listed: {_first_line(exc)}") from None
    return {str(top / PurePosixPath(info.path).relative_to(base)): info.size for info in below if info.is_file}


def fetch(uri: str, directory: Path) -> Path:
    """Copy a file into a local directory, under its name, and return it.

    Zeros at its end become a hole, as brokers leave it behind the last record. Raises NoPathError.
    """
    filesystem, inner = _filesystem(uri)
    copy = directory / PurePosixPath(inner).name
    try:
        with filesystem.open_input_stream(inner) as remote, copy.open("wb") as local:
            size = end = 0
            while block := remote.read(_BLOCK_BYTES):
                local.write(block)
                if content := block.rstrip(b"\0"):
                    end = size + len(content)
                size += len(block)
            local.truncate(end)
            local.truncate(size)
    except OSError as exc:
        raise NoPathError(f"{socket.gethostname()} cannot read {shown(uri)}: {_first_line(exc)}") from None
    return copy


def _filesystem(uri: str) -> "tuple[FileSystem, str]":
    """Return the file system of a URI, and the path in it. Raises NoPathError."""
    from pyarrow import ArrowInvalid  # noqa: PLC0415 - as above
    from pyarrow.fs import FileSystem  # noqa: PLC0415

    scheme, _, rest = uri.partition("://")
    known = f"{_SAME.get(scheme.lower(), scheme)}://{rest}"
    try:
        try:
            opened: tuple[FileSystem, str] = FileSystem.from_uri(known)
        except ArrowInvalid as exc:
            if "Unrecognized filesystem type" not in str(exc):
                raise
            opened = FileSystem.from_uri(f"fsspec+{known}")
    except ImportError:
        raise NoPathError(
            f"{shown(uri)} needs fsspec and its package for {scheme}: on {socket.gethostname()}"
        ) from None
    except (OSError, ValueError) as exc:
        needs = ". It needs Hadoop's libhdfs, and its jars in CLASSPATH" if scheme.lower() in _HADOOPS else ""
        raise NoPathError(f"{socket.gethostname()} cannot open {shown(uri)}: {_first_line(exc)}{needs}") from None
    return opened


def _first_line(exc: Exception) -> str:
    return (str(exc).splitlines() or [type(exc).__name__])[0]
