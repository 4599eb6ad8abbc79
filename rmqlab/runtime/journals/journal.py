"""The journal: the events of a cluster, in one file per process.

`<cluster>/journal/<node>.msgpack` holds msgpack maps, one per event, in the order in which they happened:

    {"v": 4, "at": milliseconds of the cluster's clock, "node": name, "kind": text,
     "fields": {name: value}, "seq": number}

`seq` counts the entries of a file from 1, so that removed, repeated or moved entries can be detected (since version 3).
A process writes `journal_opened` first, with the id of its run: a file of another run can be detected (since version
4). A process that stops regularly writes `journal_closed` last, so that a truncated file can be detected. It has the
CRC-32 of all bytes since `journal_opened`: changed entries can be detected.
`cluster.msgpack` is the supervisor's: there `node` is the node that the event is about, empty for the cluster itself.
`rmqlab.runtime.journals.schema` lists all kinds and their fields.

A file may end in the middle of a map, because its writer may be killed at any time. The next writer removes this torn
tail. Readers skip bytes that are no entry, and continue with the next one (`scan_journal`).
"""

import contextlib
import errno
import heapq
import logging
import operator
import os
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgpack

from rmqlab.runtime.bounds import EVENT, bounded_fields, cut_text
from rmqlab.runtime.journals.journalwaste import LEAST_WASTE, LONGEST_ENTRY, MOST_ITEMS, Waste
from rmqlab.runtime.journals.schema import LATEST, validate
from rmqlab.runtime.regularfile import open_regular

log = logging.getLogger(__name__)

VERSION = 4
SUFFIX = ".msgpack"
SUPERVISOR = "cluster"
"""Name of the supervisor's file."""

MESSAGE_KINDS = frozenset({"sent", "delivered", "attempt_failed", "committed", "log_sampled"})
"""Events of single messages, and samples: there may be thousands a second. They are written to the journal only, not
sent to the supervisor."""

OPENED = "journal_opened"
"""Kind of the first entry that each start of a process writes. Its field `run` is the id of the run."""

CLOSED = "journal_closed"
"""Kind of the last entry of a process that stopped regularly."""

SEALS = frozenset({CLOSED, "cluster_stopped"})
"""Kinds of last entries. Their field `crc` is the CRC-32 of all entries before them since `journal_opened`."""

_HEAD_KEYS = re.compile(
    rb"\xa1v[\x00-\x7f]\xa2at(?:[\x00-\x7f\xe0-\xff]|[\xcc\xd0].|[\xcd\xd1]..|[\xce\xd2].{4}|[\xcf\xd3].{8})\xa4node",
    re.DOTALL,
)
"""The begin of an entry of any version: `v`, the number `at`, and the key `node`.

`re` finds a pattern faster if it begins with a literal.
"""
_HEAD_MAPS = b"\x85\x86"
"""The byte before these keys: a map of five or six items."""
_HEAD_BYTES = 21
"""Its longest."""
READ_BYTES = 2**20
_FIRST_READ_BYTES = 4 * 2**10
"""Bytes of the first read from a place on; each further one is twice as large, up to `READ_BYTES`."""
BROKEN = (ValueError, KeyError, TypeError, RecursionError, msgpack.UnpackException)
"""Raised by `whole_entries` for bytes that are no entry."""


@attrs.frozen
class JournalEntry:
    """One event. Milliseconds are those of the cluster's clock."""

    at_millis: int
    node: str
    kind: str
    fields: Mapping[str, Any]
    seq: int = attrs.field(default=0, eq=False)
    """Place in its file, from 1 on; 0 in a journal of version 1 or 2, and before it is written."""

    def as_json(self) -> dict[str, Any]:
        """Return a flat map. A column takes precedence over a field of the same name."""
        columns = {"at": self.at_millis, "node": self.node, "kind": self.kind}
        return {**columns, **self.fields, **columns}


@attrs.frozen
class Torn:
    """Bytes of a journal that are no entry: a tail whose writer was killed, or damage."""

    at: int
    """Offset of the first byte in the file."""
    size: int
    """Bytes up to the next entry, or to the end of the file."""


def pack_entry(entry: JournalEntry, seq: int = 0) -> bytes:
    """Return an entry as a file holds it at its place `seq`.

    Values that msgpack does not support are written as text.

    Fields are bounded (`rmqlab.runtime.bounds.EVENT`): peers choose some of them, and a reader must be able to hold an
    entry.
    """
    packed: bytes = msgpack.packb(
        {
            "v": VERSION,
            "at": entry.at_millis,
            "node": cut_text(entry.node, EVENT.text),
            "kind": cut_text(entry.kind, EVENT.text),
            "fields": bounded_fields(entry.fields),
            "seq": seq,
        }
    )
    return packed


def opened(at_millis: int, node: str, run: str) -> JournalEntry:
    """Return the entry with which a process of this run begins to write."""
    return JournalEntry(at_millis, node, OPENED, {"run": run})


def journal_path(directory: Path, node: str) -> Path:
    """Where a process writes, in the journal directory of its cluster."""
    return directory / f"{node}{SUFFIX}"


@attrs.define(eq=False)
class JournalWriter:
    """Appends entries to one file, a batch at a time, and never fails its process.

    What is appended waits until `flush`, which the process calls once a pass of its loop: a process that is killed
    loses that much. On a full disk the batch waits for the next flush, up to MAX_PENDING bytes; further entries are
    dropped, and the log reports that once.
    """

    MAX_PENDING = 16 * 2**20

    path: Path
    _file: int = attrs.field(init=False, default=-1)
    _seq: int = attrs.field(init=False, default=0)
    """Number of the latest entry. Dropped entries are numbered too: readers detect that they are missing."""
    _crc: int = attrs.field(default=0, init=False)
    """CRC-32 of the entries since `begin`, without dropped ones."""
    _pending: bytearray = attrs.field(factory=bytearray, init=False)
    _is_failing: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._seq = _cut_torn_tail(self._file)

    def begin(self, first: JournalEntry) -> None:
        """Write the first entry of a process at once.

        The file of a process that is killed has it, too.
        """
        self._crc = 0
        self.append(first)
        self.flush()

    def append(self, entry: JournalEntry) -> int:
        """Add an entry to the batch. Return its size in bytes."""
        self._seq += 1
        if len(self._pending) >= self.MAX_PENDING:
            return 0
        if entry.kind in SEALS:
            entry = attrs.evolve(entry, fields={**entry.fields, "crc": self._crc})
        packed = pack_entry(entry, self._seq)
        self._crc = zlib.crc32(packed, self._crc)
        self._pending += packed
        return len(packed)

    def skip(self) -> None:
        """Leave an entry out. Readers detect that it is missing."""
        self._seq += 1

    def flush(self) -> None:
        """Write the batch to the file: from then on it survives the process."""
        if not self._pending or self._file < 0:
            return
        try:
            while self._pending:
                del self._pending[: os.write(self._file, self._pending)]
            self._is_failing = False
        except OSError as exc:
            if not self._is_failing:
                log.error("the journal %s cannot be written: %s", self.path, exc.strerror)  # noqa: TRY400 -- one line
            self._is_failing = True

    def close(self, last: JournalEntry | None = None) -> None:
        """Append a last entry, flush, and end. Later entries are lost."""
        if self._file >= 0:
            if last is not None:
                self.append(last)
            self.flush()
            os.close(self._file)
            self._file = -1


def read_journal(path: Path) -> Iterator[JournalEntry]:
    """Yield the entries of one file, and skip other bytes.

    OSError if the file cannot be read.
    """
    with open_regular(path) as file:
        yield from (found[1] for found in scan_journal(file.fileno()) if not isinstance(found, Torn))


def scan_journal(file: int, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, JournalEntry] | Torn]:
    """Yield the entries that begin in a range of an open file, with their places.

    Bytes after them that are no entry are yielded as Torn. Without `end` the range ends with the file. The last entry
    is read to its end, and bytes after it that are no entry belong to it. Raises OSError if the file cannot be read.
    """
    size = os.fstat(file).st_size
    end = size if end is None else min(end, size)
    waste = Waste(begin)
    at = _next_entry(file, begin, end, waste) if begin else 0
    while at < end:
        for place, after, entry in _entries_from(file, at, waste):
            if place >= end:
                return
            yield place, entry
            at = after
        if at < size:
            following = _next_entry(file, at + 1, size, waste)
            yield Torn(at, following - at)
            at = following


def _entries_from(file: int, begin: int, waste: Waste) -> Generator[tuple[int, int, JournalEntry], None, None]:
    """Yield consecutive entries from a place on, each with its begin and end."""
    longest, most_items = waste.limits(begin)
    unpacker, fed, at = new_unpacker(most_items), begin, begin
    step, least_waste = _FIRST_READ_BYTES, 0
    try:
        while fed - at < longest and (more := os.pread(file, step, fed)):
            unpacker.feed(more)
            fed += len(more)
            step = min(2 * step, READ_BYTES)
            for entry in whole_entries(unpacker):
                after = begin + unpacker.tell()
                yield at, after, entry
                at = after
    except BROKEN:
        least_waste = LEAST_WASTE
    finally:
        waste.size += max(fed - at, least_waste)


def _next_entry(file: int, begin: int, end: int, waste: Waste) -> int:
    """Return the first place from `begin` on where a whole entry begins.

    `end` if there is no such place before it. Holes of a sparse file are not read: an entry's first byte is not 0.
    """
    step = _FIRST_READ_BYTES
    while (begin := _after_hole(file, begin, end)) < end:
        data = os.pread(file, step, begin)
        step = min(2 * step, READ_BYTES)
        for keys in _HEAD_KEYS.finditer(data):
            head = keys.start() - 1
            if begin + head >= end:
                return end
            if head >= 0 and data[head] in _HEAD_MAPS and _is_entry(file, begin + head, waste):
                return begin + head
        if len(data) < _HEAD_BYTES:
            break
        begin += len(data) - _HEAD_BYTES + 1
    return end


def _is_entry(file: int, at: int, waste: Waste) -> bool:
    with contextlib.closing(_entries_from(file, at, waste)) as entries:
        return next(entries, None) is not None


def _after_hole(file: int, begin: int, end: int) -> int:
    """Return the first place from `begin` on that is not in a hole.

    `end` if the rest of the file is a hole.
    """
    try:
        return os.lseek(file, begin, os.SEEK_DATA)
    except OSError as exc:
        return end if exc.errno == errno.ENXIO else begin  # file systems without holes have other errors


def read_journals(directory: Path) -> list[JournalEntry]:
    """Return the entries of all files of a journal directory by time.

    Empty if the directory is missing.
    """
    return merge_entries(*map(read_journal, journal_files(directory)))


def merge_entries(*journals: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Merge several journals by time.

    Entries of one journal and one millisecond keep their order.
    """
    return list(heapq.merge(*(sorted(journal, key=_at) for journal in journals), key=_at))


def journal_files(directory: Path) -> list[Path]:
    """All files of a journal directory, the supervisor's last.

    Pipes and directories are no journals (`odd_journals`).
    """
    names = [name for name, is_file in _journal_names(directory) if is_file]
    return [directory / name for name in sorted(names, key=lambda name: (name == f"{SUPERVISOR}{SUFFIX}", name))]


def odd_journals(directory: Path) -> list[Path]:
    """Return the paths named like a journal that are no regular files, or unreadable."""
    return sorted(directory / name for name, is_file in _journal_names(directory) if not is_file)


def _journal_names(directory: Path) -> list[tuple[str, bool]]:
    """Return each name of a journal, and whether it is a readable file."""
    try:
        with os.scandir(directory) as entries:  # a tail lists them often
            return [(entry.name, _is_file(entry)) for entry in entries if entry.name.endswith(SUFFIX)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file() and os.access(entry.path, os.R_OK)
    except OSError:  # a loop of links
        return False


_at = operator.attrgetter("at_millis")


def new_unpacker(most_items: int = MOST_ITEMS) -> Any:
    """Return a parser of entries, which holds the longest one."""
    return msgpack.Unpacker(
        strict_map_key=False, max_buffer_size=LONGEST_ENTRY, max_array_len=most_items, max_map_len=most_items
    )


def whole_entries(unpacker: Any) -> Iterator[JournalEntry]:
    """Yield the whole entries that an unpacker holds.

    Raises one of `BROKEN` for bytes that are not an entry. Of an unknown version, the known fields are read.
    """
    for entry in unpacker:
        at_millis, node, kind, fields = entry["at"], entry["node"], entry["kind"], entry["fields"]
        is_entry = type(at_millis) is int and isinstance(node, str) and isinstance(kind, str)
        if not is_entry or not isinstance(fields, dict) or not 0 <= at_millis <= LATEST:
            raise TypeError("not an entry of a journal")
        if invalid := validate(kind, fields):
            raise TypeError(f"{kind} with an invalid value of {invalid}")
        seq = entry.get("seq")
        yield JournalEntry(at_millis, node, kind, fields, seq if isinstance(seq, int) else 0)


def _cut_torn_tail(file: int) -> int:
    """Cut the bytes after the last whole entry; return the entry's `seq`.

    A reader could not continue after such bytes. An entry with an invalid value stays: readers report it.
    """
    seq, tail = 0, None
    for found in scan_journal(file):
        tail = found if isinstance(found, Torn) else None
        seq = seq if isinstance(found, Torn) else found[1].seq
    if tail is not None and tail.at + tail.size == os.fstat(file).st_size and not _is_map(file, tail):
        log.warning("the journal ended in the middle of an entry: %d bytes are cut off", tail.size)
        os.ftruncate(file, tail.at)
    return seq


def _is_map(file: int, tail: Torn) -> bool:
    """Return True if bytes begin with a whole map that has a number as entries have."""
    unpacker = new_unpacker()
    with contextlib.suppress(*BROKEN):
        unpacker.feed(os.pread(file, min(tail.size, LONGEST_ENTRY), tail.at))
        found = unpacker.unpack()
        return isinstance(found, dict) and isinstance(found.get("seq"), int)
    return False
