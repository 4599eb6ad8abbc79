"""Commit logs on disk, cut into ranges for independent tasks. No Spark, no Arrow.

Each record contains its commit log offset, which is the base of its file plus its position: so a reader that starts at
any position reliably finds the next record. A range owns the records that *begin* in it. Reading does not lock, change
or recover anything.
"""

import contextlib
import json
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import attrs

from rmqlab.pipeline.paths.remotepaths import RemotePath
from rmqlab.pipeline.paths.sourcepaths import AnyPath, SourcePath, address_of, range_size
from rmqlab.pipeline.stores.recordlayout import Walk, walk
from rmqlab.remoting.message import BLANK_SIZE, FIXED_SIZE, MESSAGE_MAGIC
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.log.loglayout import ENTRY_HEADER, entry_header_at, is_unused, load_record

P = TypeVar("P", bound=SourcePath)
_MAGIC: Final = struct.pack(">i", MESSAGE_MAGIC)
_MAGIC_AT: Final = 4
_HEAD: Final = struct.Struct(">ii")
_PHYSICAL_OFFSET: Final = struct.Struct(">q")
_PHYSICAL_OFFSET_AT: Final = 28
_NAME_DIGITS: Final = 20
CHUNK_BYTES: Final = 8 * 2**20
"""Maximum bytes of a log decoded at once, and at most `CHUNK_RECORDS` records."""
CHUNK_RECORDS: Final = 8192
STORE_PATH: Final = "a store's directory, or one with a directory for each node"
"""Meaning of the option path of sources that read stores."""


class NoStoreError(Exception):
    """A path contains no commit log. The text says what was expected."""


@attrs.frozen
class Log(Generic[P]):
    """One node's commit log: the directory with files named by their first offset."""

    node: str
    directory: P


@attrs.frozen
class Range:
    """A part of one file of a commit log, in bytes from the file's beginning."""

    node: str
    path: str
    start: int
    end: int
    is_last: bool = True
    """True if all later files of the log are empty."""
    source: str = ""
    """The path or URI of the file, for people, if `path` is a local copy."""


@attrs.frozen
class RecordSegment:
    """Contents of a range at one position: whole records, or bytes without a record.

    `starts` are the records' positions in the file; empty for a torn segment, which starts at `begin` and has `size`
    bytes.
    """

    begin: int
    size: int
    starts: Sequence[int] = ()


def find_logs(path: P) -> list[Log[P]]:
    """Return the commit logs below the directory of a log, store, node or run.

    A cluster's directory is accepted too. The node is named after its directory, as rmqlab lays them out. Raises
    NoStoreError if there is no log.
    """
    if not path.is_dir():
        raise NoStoreError(f"{path} is not a directory")
    if path.name == "commitlog" or any(_is_log_file(child) for child in path.iterdir()):
        return [Log(_node_name(store_of(path)), path)]
    logs = [Log(_node_name(store_of(found)), found) for found in _below(path)]
    if not logs:
        raise NoStoreError(
            f"{path} holds no commit log: expected commitlog/, store/commitlog/ or <node>/store/commitlog/ below it"
        )
    return logs


def _below(path: P) -> Iterator[P]:
    for store in ("", "store/", "*/store/", "*/"):  # the last one: in a run, it would find a copy of a store first
        members = _directories(path, f"{store}dledger-*/data")
        joined = {member.parent.parent for member in members}
        plain = [found for found in _directories(path, f"{store}commitlog") if found.parent not in joined]
        if members or plain:
            yield from sorted([*members, *plain])
            return


def _directories(path: P, pattern: str) -> list[P]:
    return [found for found in path.glob(pattern) if found.is_dir()]


def store_of(log_directory: P) -> P:
    """Return the store whose log has its files in this directory."""
    return log_directory.parent.parent if log_directory.name == "data" else log_directory.parent


def _node_name(store: SourcePath) -> str:
    return (store.absolute().parent if store.name == "store" else store.absolute()).name


def _is_log_file(path: SourcePath) -> bool:
    return len(path.name) == _NAME_DIGITS and path.name.isdecimal()


def topics_of(log: Log[P]) -> set[str]:
    """Return the topics in a store's tables: those with settings or with queues.

    Empty without tables. A deleted topic is in neither table, though its records may still be in the log.
    """
    store = store_of(log.directory)
    queues = store / "consumequeue"
    listed = {path.name for path in queues.iterdir()} if queues.is_dir() else set()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # missing or incomplete
        listed |= set(json.loads((store / "config" / "topics.json").read_text())["topicConfigTable"])
    return listed


def log_files(log: Log[P]) -> list[P]:
    """Return the files of a log, oldest first.

    The entries of a member may continue a plain log (docs/protocol/dledger.md, section 8.5).
    """
    plain = store_of(log.directory) / "commitlog"
    places = [plain, log.directory] if log.directory.name == "data" and plain.is_dir() else [log.directory]
    found = [path for place in places for path in place.iterdir() if _is_log_file(path)]
    return sorted(found, key=lambda path: path.name)


def ranges_of(log: Log[AnyPath], range_bytes: int) -> list[Range]:
    """Cut a log into ranges of about this size, without unwritten ends of files."""
    files = log_files(log)
    last = max((path.name for path in files if _has_begun(path)), default="")
    ranges = []
    for path in files:
        end = _end_of(path)
        step = range_size(path, range_bytes)
        ranges += [
            Range(log.node, address_of(path), at, min(at + step, end), path.name >= last) for at in range(0, end, step)
        ]
    return ranges


def written_bytes(log: Log[AnyPath]) -> int:
    """Return the bytes of all files of a log, without their unwritten ends."""
    return sum(map(_end_of, log_files(log)))


def _end_of(path: AnyPath) -> int:
    return path.size if isinstance(path, RemotePath) else written_end(path)


def _has_begun(path: AnyPath) -> bool:
    """Return False for a preallocated file without data."""
    if isinstance(path, RemotePath):
        return any(path.read_bytes(BLANK_SIZE))
    with path.open("rb") as file:
        return any(file.read(BLANK_SIZE))


def written_end(path: Path) -> int:
    """Return the end of a file's last allocated block.

    Returns its size if the system does not support SEEK_DATA.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        at = end = 0
        try:
            while at < size:
                begin = os.lseek(descriptor, at, os.SEEK_DATA)
                at = end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as exc:
            return end if exc.errno == 6 else size  # ENXIO: no data after this position
        return end
    finally:
        os.close(descriptor)


def segments(
    image: FileImage, base: int, start: int, end: int, *, is_last: bool = True, find: Walk = walk
) -> Iterator[RecordSegment]:
    """Yield the records and torn bytes that begin in [start, end) of a file, in order.

    `base` is the commit log offset of the file's first byte. Omits the blank end of a file, and zeros at the end of a
    log's last file. `find` returns where records begin. The bytes of a segment are in the window of `image`. Raises
    OSError.
    """
    image.load(start, start + FIXED_SIZE)
    at = start if start == 0 or _is_record(image.view, start, base) else next_record(image, start, base)
    while at < end:
        starts, at_end = _find(image, base, at, end, find)
        if len(starts):
            yield RecordSegment(at, at_end - at, starts)
            at = at_end
            continue
        if _is_blank(image.view, at) or (is_last and _is_zero(image, at)):
            return
        load_record(image, at)
        if at + entry_header_at(image.view, at, base) >= end:  # the next range has the record of this entry
            return
        following = next_record(image, at + 1, base)
        image.forget()
        if len(_find(image, base, at, end, find, most=1)[0]):
            continue  # a broker that runs wrote it, and those behind, in the meantime
        yield RecordSegment(at, following - at)
        at = following


def _find(
    image: FileImage, base: int, at: int, end: int, find: Walk, most: int = CHUNK_RECORDS
) -> tuple[Sequence[int], int]:
    """Return the result of `find` for the next records of a range. All are read."""
    limit = min(end, at + CHUNK_BYTES)
    image.load(at, limit + ENTRY_HEADER.size + FIXED_SIZE)
    starts, at_end = find(image.view, at, limit, base, most)
    image.load(at, at_end)
    return starts, at_end


def _is_blank(view: memoryview, at: int) -> bool:
    """Return True for the unused end of a file (store-ha section 2.1)."""
    return at + BLANK_SIZE > len(view) or is_unused(view, at)


def _is_zero(image: FileImage, at: int) -> bool:
    """Return True if a file has only zeros from a position on."""
    for begin in range(at, image.written, CHUNK_BYTES):
        until = min(begin + CHUNK_BYTES, image.written)
        image.load(begin, until)
        if image.view[begin:until] != bytes(until - begin):
            return False
    return True


def _is_record(view: memoryview, at: int, base: int) -> bool:
    if at + FIXED_SIZE > len(view):
        return False
    size, magic = _HEAD.unpack_from(view, at)
    (offset,) = _PHYSICAL_OFFSET.unpack_from(view, at + _PHYSICAL_OFFSET_AT)
    return bool(magic == MESSAGE_MAGIC and FIXED_SIZE <= size <= len(view) - at and offset == base + at)


def next_record(image: FileImage, at: int, base: int) -> int:
    """Return the first position from `at` on where a record begins. OSError.

    Returns the file's length if there is none.
    """
    # up to the end of a mapping, Python before 3.11.5 reads a byte behind it
    written = min(image.written, image.size - 1)
    while at < written:
        image.load(at, at + FIXED_SIZE)
        high = min(image.high, written)
        found = image.map.find(_MAGIC, at + _MAGIC_AT, high)
        if found < 0:
            at = high if high == written else high - _MAGIC_AT - len(_MAGIC) + 1
            continue
        at = found - _MAGIC_AT
        image.load(at, at + FIXED_SIZE)
        if _is_record(image.view, at, base):
            return at
        at += 1
    return image.size
