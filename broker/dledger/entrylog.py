"""A commit log with one record behind the header of each DLedger entry.

Sections 8.4 and 8.5, class DLedgerCommitLog. Only committed entries can be read. Offsets of records are those of their
bytes in the data files, so consume queues and index need no other format.

A plain log may precede the entries: its files stay in `commitlog/`, and the offsets of the entries continue its own.
"""

import logging
import struct
from collections.abc import Callable
from typing import Final, Self, TypeAlias

import attrs

from rmqlab.dledger.entry import BLANK, BLANK_MAGIC, BODY_OFFSET, EntryHeader
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.server import Server
from rmqlab.remoting.message import BLANK_MAGIC as PLAIN_BLANK_MAGIC
from rmqlab.remoting.message import BLANK_SIZE, MESSAGE_MAGIC
from rmqlab.runtime.net.dispatch import Request
from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.log.commitlog import CommitLog, RecordSpace
from rmqlab.store.log.recovery import Walk, record_size
from rmqlab.store.results import Decision

logger = logging.getLogger(__name__)

GroupServer: TypeAlias = Server[Decision, Request]
FULL_ABOVE_FORCED: Final = 5
"""Percent above the limit of forced cleaning at which a member refuses appends; 95 at most (DLedgerConfig)."""
PLAIN_BLANK: Final = struct.Struct(">ii")
PLAIN_MAGICS: Final = frozenset({MESSAGE_MAGIC, PLAIN_BLANK_MAGIC})
"""In bytes 4 to 8 of a plain record; an entry has its size there (checkMessageAndReturnSize)."""
PHYSICAL_AT: Final = 28
"""Position in a record of its own log offset."""
_LONG: Final = struct.Struct(">q")
_SIZE_AT: Final = 4
"""Position of the size in an entry."""
_SIZE: Final = struct.Struct(">i")
_SECTOR: Final = 512
"""Bytes that a disk writes as a whole, or not at all."""


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
    """A member's log, as the message store uses it."""

    server: GroupServer = attrs.field(kw_only=True)
    now: Callable[[], int] = attrs.field(kw_only=True)
    """The time of the group's member, in ms."""
    plain: FileQueue = attrs.field(kw_only=True)
    """Files from before the broker joined a group; usually none."""
    full_percent: int = attrs.field(kw_only=True, default=90)
    """Used space of the disk above which the member refuses appends."""
    on_append: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    """Called after each append of this broker's own, also after one that failed."""
    buffer: RecordBuffer = attrs.field(factory=lambda: RecordBuffer(bytearray()), init=False)
    _is_warned: bool = attrs.field(default=False, init=False)
    """True once the log has named an entry that is no message."""

    @classmethod
    def of(cls, server: GroupServer, plain: FileQueue, now: Callable[[], int], forced_percent: int) -> Self:
        """Return the log of a member whose entries are recovered.

        `plain` has the files of the log before it, which are mapped. `forced_percent`: used space above which files
        are deleted before they expire.
        """
        server.prepare, server.accepts = set_physical_offset, is_record
        full_percent = min(forced_percent + FULL_ABOVE_FORCED, 95)
        files = server.store.data
        return cls(files, BODY_OFFSET, server=server, now=now, plain=plain, full_percent=full_percent)

    @property
    def entries(self) -> EntryStore:
        return self.server.store

    @property
    def is_mixed(self) -> bool:
        """True while files of a plain log exist."""
        return bool(self.plain.files)

    @property
    def all_files(self) -> list[LogFile]:
        return [*self.plain.files, *self.files.files]

    def file_at(self, offset: int) -> LogFile | None:
        return self.plain.file_at(offset) or self.files.file_at(offset)

    def _is_plain(self, file: LogFile) -> bool:
        return file in self.plain.files

    def entry_header_size(self, file: LogFile) -> int:
        return 0 if self._is_plain(file) else self.lead

    @property
    def min_offset(self) -> int:
        return self.plain.min_offset if self.is_mixed else self.divide

    @property
    def divide(self) -> int:
        """Begin of the first entry or its file (MmapFileList.getMinOffset)."""
        return max(self.files.min_offset, self.entries.begin_position) if self.files.files else 0

    @property
    def max_offset(self) -> int:
        """The end of the last committed entry, or the start of the entries (dledger#55).

        Not behind a cut that the queues have not followed: dispatch would go on within an entry.
        """
        end = min(self.entries.committed_end, self.files.max_offset)
        if (cut_to := self.entries.cut_to) is not None:
            end = min(end, cut_to)
        return max(self.divide, end)

    def load(self) -> None:
        """Do nothing: `EntryStore.open` has loaded and recovered the files."""

    def close(self) -> None:
        """Write the checkpoint and unmap. OSError leaves no file mapped."""
        try:
            self.entries.save_checkpoint()
        finally:
            self.entries.unmap()
            self.plain.close()

    def continue_plain(self) -> None:
        """End the plain log; the first entry begins in the file behind it (dledger#56).

        OSError.
        """
        last = self.plain.files[-1]
        if left := last.size - last.wrote:
            last.ensure_room(last.wrote + BLANK_SIZE)
            PLAIN_BLANK.pack_into(last.map, last.wrote, left, PLAIN_BLANK_MAGIC)
            last.wrote = last.size
        last.sync()
        self.entries.start_at(last.end_offset)
        logger.warning("%s ends at %d: the entries of the group continue it", last.path.parent, last.end_offset)

    @property
    def droppable(self) -> int:
        """Number of files that can be dropped: all plain files, then files of entries."""
        return len(self.plain.files) or max(0, len(self.files.files) - 1)

    @property
    def extra_hours(self) -> int:
        """DLedgerCommitLog adds an hour to `fileReservedTime` of entries (dledger#60)."""
        return 0 if self.is_mixed else 1

    def note_synced(self, offset: int) -> None:
        self.entries.synced_end = offset

    def note_used(self, used_percent: int) -> None:
        """Refuse appends of any role while the disk is too full (dledger#59)."""
        self.entries.is_full = used_percent > self.full_percent

    def deletion_of_first(self) -> DiskCalls[None]:
        return self.plain.deletion_of_first() if self.is_mixed else self.entries.deletion_of_first_file()

    def group_facts(self) -> dict[str, object]:
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
        """Return True if an entry, or a record of a plain file, begins at an offset."""
        file = self.file_at(offset)
        if file is not None and self._is_plain(file):
            return CommitLog.begins_record(self, offset)
        at = offset - file.first_offset if file else 0
        return file is not None and at + BODY_OFFSET <= file.wrote and _header(file.view, at).is_valid_at(offset)

    def walk(self, view: memoryview, start: int, limit: int) -> tuple[int, Walk]:
        """Walk over whole entries whose records pass their checksum.

        Also over those that are no messages. In a plain file, walk over records.
        """
        if start + BLANK_SIZE <= len(view) and PLAIN_BLANK.unpack_from(view, start)[1] in PLAIN_MAGICS:
            return CommitLog.walk(self, view, start, limit)
        at = start
        while at < limit and at + BODY_OFFSET <= len(view):
            header = _header(view, at)
            if not header.is_valid_at(header.pos) or at + header.size > len(view):
                break
            if is_torn(view, at, header):
                break
            at += header.size
        if at >= limit:
            return at, Walk.LIMIT if at < len(view) else Walk.END
        return at, Walk.BLANK if _is_blank(view, at) else Walk.END

    def is_blank(self, file: LogFile, at: int) -> bool:
        return CommitLog.is_blank(self, file, at) if self._is_plain(file) else _is_blank(file.view, at)

    def is_entry_of(self, file: LogFile, at: int, size: int, physical: int) -> bool:
        is_filled = _SIZE.unpack_from(file.map, at + _SIZE_AT)[0] == size + BODY_OFFSET
        return bool(is_filled and physical == file.first_offset + at + BODY_OFFSET)

    def after_entry(self, file: LogFile, at: int) -> int | None:
        """Return the position behind an entry that is no message, or None.

        The log names the first one. A client of a real leader, or a member that only claims to lead, may append any
        bytes. DLedgerCommitLog skips all that is readable behind them in the file; a new leader here would wait for
        dispatch forever.
        """
        if self._is_plain(file) or at + BODY_OFFSET > file.wrote:
            return None
        header = _header(file.view, at)
        if not header.is_valid_at(file.first_offset + at) or at + header.size > file.wrote:
            return None
        if not self._is_warned:
            logger.error("%s: entry %d is no message: it is in no queue", file.path, header.number)
            self._is_warned = True
        return at + header.size

    # ---- writing ----

    def space_for(self, size: int, *, mapped: bool = True) -> RecordSpace:  # noqa: ARG002 - a buffer needs no mapping
        """Return a buffer of `size` bytes; the group decides where its records are stored."""
        self.buffer = RecordBuffer(bytearray(size))
        return self.buffer


def is_record(body: bytes | memoryview) -> bool:
    """Return True for a whole record; other bodies are in no queue."""
    return bool(body) and record_size(memoryview(body), 0, check_crc=True) == len(body)


def is_torn(view: memoryview, at: int, header: EntryHeader) -> bool:
    """Return True for an entry without a whole record that was not written like that."""
    return not (_has_whole_record(view, at, header) or _is_no_message(view, at, header))


def set_physical_offset(pos: int, record: bytes) -> bytes:
    """Return a record with its offset: behind the entry's header (dledger#5)."""
    return record[:PHYSICAL_AT] + _LONG.pack(pos + BODY_OFFSET) + record[PHYSICAL_AT + _LONG.size :]


def _header(view: memoryview, at: int) -> EntryHeader:
    return EntryHeader.decode(view, at)


def _has_whole_record(view: memoryview, at: int, header: EntryHeader) -> bool:
    return record_size(view, at + BODY_OFFSET, check_crc=True) == header.body_size


def _is_no_message(view: memoryview, at: int, header: EntryHeader) -> bool:
    """Return True for a body that was written as it is, though it is no whole record.

    The next entry follows it, and no sector of the record may be lost. A disk that lost a sector reads zeros there.
    """
    end = at + header.size
    if end + BODY_OFFSET > len(view):
        return False
    following = _header(view, end)
    if not following.is_valid_at(header.pos + header.size) or following.number != header.number + 1:
        return False
    return not _has_head(view, at, header) or not _may_lack_sector(view, at + BODY_OFFSET, end)


def _has_head(view: memoryview, at: int, header: EntryHeader) -> bool:
    """Return False if a body does not begin as a record.

    Else, or if the disk may have lost its begin, which is in another sector than the entry's header, return True.
    """
    begin = at + BODY_OFFSET
    if header.body_size < PLAIN_BLANK.size:
        return False
    if (begin - 1) // _SECTOR != (begin + PLAIN_BLANK.size - 1) // _SECTOR:
        return True
    return PLAIN_BLANK.unpack_from(view, begin) == (header.body_size, MESSAGE_MAGIC)


def _may_lack_sector(view: memoryview, begin: int, end: int) -> bool:
    """Return True if a sector within these bytes is zero."""
    first, last = -(-begin // _SECTOR) * _SECTOR, end // _SECTOR * _SECTOR
    return any(not any(view[at : at + _SECTOR]) for at in range(first, last, _SECTOR))


def _is_blank(view: memoryview, at: int) -> bool:
    return at + BLANK.size <= len(view) and BLANK.unpack_from(view, at)[0] == BLANK_MAGIC
