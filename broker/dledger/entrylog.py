"""A commit log with one record behind the header of each DLedger entry.

Section 8.4, class DLedgerCommitLog. Only committed entries can be read. Offsets of records are those of their bytes in
the data files, so consume queues and index need no other format.
"""

import struct
from collections.abc import Callable
from typing import Final, Self, TypeAlias

import attrs

from rmqlab.dledger.entry import BLANK, BLANK_MAGIC, BODY_OFFSET, EntryHeader
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.server import Server
from rmqlab.runtime.dispatch import Request
from rmqlab.store.commitlog import CommitLog, RecordSpace
from rmqlab.store.logfile import LogFile
from rmqlab.store.recovery import Walk, record_size
from rmqlab.store.results import Decision

GroupServer: TypeAlias = Server[Decision, Request]
FULL_ABOVE_FORCED: Final = 5
"""Percent above the limit of forced cleaning at which a member refuses appends; 95 at most (DLedgerConfig)."""
PHYSICAL_AT: Final = 28
"""Position in a record of its own log offset."""
_LONG: Final = struct.Struct(">q")


@attrs.define
class RecordBuffer:
    """Records that are encoded before their place in the log is known."""

    map: bytearray
    wrote: int = 0
    first_offset: int = 0

    def append(self, data: bytes | memoryview) -> None:
        self.map[self.wrote : self.wrote + len(data)] = data
        self.wrote += len(data)


@attrs.define(eq=False)
class EntryLog(CommitLog):
    """What a message store sees of a member's log."""

    server: GroupServer = attrs.field(kw_only=True)
    now: Callable[[], int] = attrs.field(kw_only=True)
    """The time of the group's member, in ms."""
    full_percent: int = attrs.field(kw_only=True, default=90)
    """Used space of the disk above which the member refuses appends."""
    on_append: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    """Called after each append of this broker's own."""
    buffer: RecordBuffer = attrs.field(factory=lambda: RecordBuffer(bytearray()), init=False)

    @classmethod
    def of(cls, server: GroupServer, now: Callable[[], int], forced_percent: int) -> Self:
        """Return the log of a member whose entries are recovered.

        `forced_percent`: used space above which files are deleted before they expire.
        """
        server.prepare, server.accepts = set_physical_offset, is_record
        full_percent = min(forced_percent + FULL_ABOVE_FORCED, 95)
        return cls(server.store.data, BODY_OFFSET, server=server, now=now, full_percent=full_percent)

    @property
    def entries(self) -> EntryStore:
        return self.server.store

    @property
    def min_offset(self) -> int:
        """Where the first entry begins, or the first file (MmapFileList.getMinOffset)."""
        return max(self.files.min_offset, self.entries.begin_position) if self.files.files else 0

    @property
    def max_offset(self) -> int:
        """The end of the last committed entry, or the begin of the log (dledger#55)."""
        return max(self.min_offset, min(self.entries.committed_end, self.files.max_offset))

    def load(self) -> None:
        """Do nothing: `EntryStore.open` has loaded and recovered the files."""

    def close(self) -> None:
        """Write the checkpoint and unmap. OSError leaves no file mapped."""
        try:
            self.entries.save_checkpoint()
        finally:
            self.entries.unmap()

    @property
    def extra_hours(self) -> int:
        """DLedgerCommitLog adds an hour to `fileReservedTime` (dledger#60)."""
        return 1

    def note_used(self, used_percent: int) -> None:
        """Refuse appends of any role while the disk is too full (dledger#59)."""
        self.entries.is_full = used_percent > self.full_percent

    def drop_first(self) -> None:
        self.entries.drop_first_file()

    def facts(self) -> dict[str, object]:
        """Return the member's state for the snapshot of its broker."""
        member, entries = self.server.member, self.entries
        return {
            "role": str(member.role),
            "term": member.term,
            "leader": member.leader_id,
            "begin_index": entries.begin_index,
            "end_index": entries.end_index,
            "committed_index": entries.committed_index,
            "peer_faults": dict(self.server.peer_lists.faults),
        }

    # ---- flush ----

    def files_grown_beyond(self, offset: int) -> list[LogFile]:
        return self.entries.grown_files(offset)

    def begins_record(self, offset: int) -> bool:
        """True if an entry begins at an offset."""
        file = self.files.file_at(offset)
        at = offset - file.first_offset if file else 0
        return file is not None and at + BODY_OFFSET <= file.wrote and _header(file.view, at).is_valid_at(offset)

    def walk(self, view: memoryview, start: int, limit: int) -> tuple[int, Walk]:
        """Walk over whole entries whose records pass their checksum."""
        at = start
        while at < limit and at + BODY_OFFSET <= len(view):
            header = _header(view, at)
            if not header.is_valid_at(header.pos) or at + header.size > len(view):
                break
            if record_size(view, at + BODY_OFFSET, check_crc=True) != header.body_size:
                break
            at += header.size
        if at >= limit:
            return at, Walk.LIMIT if at < len(view) else Walk.END
        return at, Walk.BLANK if _is_blank(view, at) else Walk.END

    def is_blank(self, file: LogFile, at: int) -> bool:
        return _is_blank(file.view, at)

    # ---- writing ----

    def space_for(self, size: int, *, mapped: bool = True) -> RecordSpace:  # noqa: ARG002 - a buffer needs no mapping
        """Return a buffer of `size` bytes; the group gives its records their places."""
        self.buffer = RecordBuffer(bytearray(size))
        return self.buffer


def is_record(body: bytes) -> bool:
    """True for a whole record. Any other body would stop dispatch on all members."""
    return record_size(memoryview(body), 0, check_crc=True) == len(body)


def set_physical_offset(pos: int, record: bytes) -> bytes:
    """Return a record with its offset: behind the entry's header (dledger#5)."""
    return record[:PHYSICAL_AT] + _LONG.pack(pos + BODY_OFFSET) + record[PHYSICAL_AT + _LONG.size :]


def _header(view: memoryview, at: int) -> EntryHeader:
    return EntryHeader.decode(view, at)


def _is_blank(view: memoryview, at: int) -> bool:
    return at + BLANK.size <= len(view) and BLANK.unpack_from(view, at)[0] == BLANK_MAGIC
