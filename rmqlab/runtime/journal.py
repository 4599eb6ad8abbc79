"""The journal: what each process of a cluster saw, in a file of its own.

`<cluster>/journal/<node>.msgpack` holds msgpack maps, one per event, in the order in which they happened:

    {"v": 2, "at": milliseconds of the cluster's clock, "node": name, "kind": text, "fields": {name: value}}

`cluster.msgpack` is the supervisor's: there `node` is whom the event is about, empty for the cluster itself.
`rmqlab.runtime.journal_schema` lists all kinds and their fields. A file may end in the middle of a map, for its writer may be
killed at any time: who reads it stops there, and who goes on writing cuts it off first.
"""

import contextlib
import heapq
import io
import logging
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgpack

from rmqlab.runtime.bounds import EVENT, bounded_fields, cut_text

log = logging.getLogger(__name__)

VERSION = 2
SUFFIX = ".msgpack"
SUPERVISOR = "cluster"
"""Name of the supervisor's file."""

MESSAGE_KINDS = frozenset({"sent", "delivered", "attempt_failed", "committed", "log_sampled"})
"""Events of single messages, and samples: there may be thousands a second. They stand in the journal, and are told to
nobody."""

_READ_BYTES = 2**20
_LONGEST_ENTRY = 16 * 2**20
"""Bytes of an entry that is still read: 64 times what a writer writes. What is longer is no entry."""
_MOST_ITEMS = 2**20
_BROKEN = (ValueError, KeyError, TypeError, RecursionError, msgpack.UnpackException)


@attrs.frozen
class JournalEntry:
    """One event. Milliseconds are those of the cluster's clock."""

    at_millis: int
    node: str
    kind: str
    fields: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Flat. A field of the name of a column gives way to it."""
        columns = {"at": self.at_millis, "node": self.node, "kind": self.kind}
        return {**columns, **self.fields, **columns}


def pack_entry(entry: JournalEntry) -> bytes:
    """Return an entry as a file holds it. What msgpack does not know is written as text.

    Fields are bounded (`rmqlab.runtime.bounds.EVENT`): peers choose some of them, and a reader must be able to hold an entry.
    """
    packed: bytes = msgpack.packb(
        {
            "v": VERSION,
            "at": entry.at_millis,
            "node": cut_text(entry.node, EVENT.text),
            "kind": cut_text(entry.kind, EVENT.text),
            "fields": bounded_fields(entry.fields),
        }
    )
    return packed


def journal_path(directory: Path, node: str) -> Path:
    """Where a process writes, in the journal directory of its cluster."""
    return directory / f"{node}{SUFFIX}"


@attrs.define(eq=False)
class JournalWriter:
    """Appends entries to one file, a batch at a time, and never fails its process.

    What is appended waits until `flush`, which the process calls once a pass of its loop: a process that is
    killed loses that much. On a full disk the batch waits for the next flush, up to MAX_PENDING bytes; what
    comes beyond is dropped, and the log says so once.
    """

    MAX_PENDING = 16 * 2**20

    path: Path
    _file: int = attrs.field(init=False, default=-1)
    _pending: bytearray = attrs.field(factory=bytearray, init=False)
    _is_failing: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        _cut_torn_tail(self._file)

    def append(self, entry: JournalEntry) -> None:
        """Add an entry to the batch."""
        if len(self._pending) < self.MAX_PENDING:
            self._pending += pack_entry(entry)

    def flush(self) -> None:
        """Hand the batch to the system: from then on it outlives the process."""
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

    def close(self) -> None:
        """Flush, and end. What is appended later is lost."""
        if self._file >= 0:
            self.flush()
            os.close(self._file)
            self._file = -1


@attrs.define(eq=False)
class JournalTail:
    """Reads the files of a directory as they grow. A file that is not there yet is read once it is."""

    directory: Path
    _unpackers: dict[Path, tuple[io.FileIO, Any]] = attrs.field(factory=dict, init=False)

    def read_new(self) -> list[JournalEntry]:
        """Give all whole entries that came since the last call, by time."""
        # The supervisor's file is read first, and told last: whoever is told there to have ended has been heard out.
        new = [
            entry
            for part in reversed([self._new_in(path) for path in reversed(_in_order(self.directory))])
            for entry in part
        ]
        new.sort(key=_at)
        return new

    def _new_in(self, path: Path) -> list[JournalEntry]:
        new: list[JournalEntry] = []
        with contextlib.suppress(FileNotFoundError, *_BROKEN):
            if path not in self._unpackers:
                self._unpackers[path] = io.FileIO(path), _unpacker()
            file, unpacker = self._unpackers[path]
            while data := file.read(_READ_BYTES):
                unpacker.feed(data)
                new += _entries(unpacker)
        return new

    def close(self) -> None:
        for file, _ in self._unpackers.values():
            file.close()
        self._unpackers.clear()


def read_journal(path: Path) -> Iterator[JournalEntry]:
    """Give the entries of one file, up to its end or to where it is torn. OSError where it cannot be read."""
    with io.FileIO(path) as file, contextlib.suppress(*_BROKEN):
        unpacker = _unpacker()
        while data := file.read(_READ_BYTES):
            unpacker.feed(data)
            yield from _entries(unpacker)


def read_journals(directory: Path) -> list[JournalEntry]:
    """Give the entries of all files of a journal directory by time; none where there is no such directory."""
    return merge_entries(*map(read_journal, _in_order(directory)))


def merge_entries(*journals: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Put several journals into one, by time. Entries of one journal and one millisecond keep their order."""
    return list(heapq.merge(*(sorted(journal, key=_at) for journal in journals), key=_at))


def _in_order(directory: Path) -> list[Path]:
    """All files of a journal directory, the supervisor's last."""
    return sorted(directory.glob(f"*{SUFFIX}"), key=lambda path: (path.stem == SUPERVISOR, path.name))


_at = operator.attrgetter("at_millis")


def _unpacker() -> Any:
    return msgpack.Unpacker(
        strict_map_key=False, max_buffer_size=_LONGEST_ENTRY, max_array_len=_MOST_ITEMS, max_map_len=_MOST_ITEMS
    )


def _entries(unpacker: Any) -> Iterator[JournalEntry]:
    """Give the whole entries that an unpacker holds; one of `_BROKEN` for what is none.

    Of a version that we do not know we read what is as it was.
    """
    for entry in unpacker:
        at_millis, node, kind, fields = entry["at"], entry["node"], entry["kind"], entry["fields"]
        is_entry = isinstance(at_millis, int) and isinstance(node, str) and isinstance(kind, str)
        if not is_entry or not isinstance(fields, dict):
            raise TypeError("not an entry of a journal")
        yield JournalEntry(at_millis, node, kind, fields)


def _cut_torn_tail(file: int) -> None:
    """Shorten a file to its last whole entry: what is appended behind half a map could not be read."""
    size = os.fstat(file).st_size
    whole, at, unpacker = 0, 0, _unpacker()
    with contextlib.suppress(*_BROKEN):
        while data := os.pread(file, _READ_BYTES, at):
            at += len(data)
            unpacker.feed(data)
            for _ in _entries(unpacker):
                whole = unpacker.tell()
    if whole < size:
        log.warning("the journal ended in the middle of an entry: %d bytes are cut off", size - whole)
        os.ftruncate(file, whole)
