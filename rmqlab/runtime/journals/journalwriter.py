"""Writes the journal of a process.

A torn tail that an earlier process left is removed first.
"""

import contextlib
import logging
import os
import zlib
from pathlib import Path

import attrs

from rmqlab.runtime.journals.journalentry import BROKEN, SEALS, JournalEntry, new_unpacker, pack_entry
from rmqlab.runtime.journals.journalreader import Torn, scan_journal
from rmqlab.runtime.journals.journalwaste import LONGEST_ENTRY

log = logging.getLogger(__name__)


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
