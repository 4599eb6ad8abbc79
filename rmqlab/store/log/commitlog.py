"""The commit log: all messages of all topics in arrival order.

Sections 2.1, 2.3. Appends, reads, and rolls to the next file.
"""

import mmap
import struct
from typing import Final, Protocol

import attrs

from rmqlab.remoting.message import (
    BLANK_MAGIC,
    BLANK_SIZE,
    HEADS,
    MESSAGE_MAGIC,
    PHYSICAL_OFFSET_AT,
    SYS_FLAG_AT,
    store_time_at,
)
from rmqlab.store.files.disk import StoreCorrupt
from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.log.recovery import Walk, record_size, walk_records

_PREFIX: Final = struct.Struct(">ii")
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_PLAIN_SIZE: Final = HEADS[0].size
_ZEROED_AT_ONCE: Final = 1 << 20
_HEAD_SIZE: Final = PHYSICAL_OFFSET_AT + _LONG.size


def physical_offset_of(record: memoryview | bytes) -> int:
    """Return the physical offset field of a record."""
    offset: int = _LONG.unpack_from(record, PHYSICAL_OFFSET_AT)[0]
    return offset


def _is_in(file: LogFile, offset: int) -> bool:
    return offset - offset % file.size == file.first_offset


def _begins_with_record(file: LogFile) -> bool:
    with file.image() as image:
        image.load(0, file.size)
        return record_size(image.view, 0, check_crc=True) > 0


class RecordSpace(Protocol):
    """Memory that records are written to: a mapped file or a buffer."""

    @property
    def first_offset(self) -> int:
        """The log offset of its first byte."""

    @property
    def map(self) -> mmap.mmap | bytearray:
        """Its bytes, to be written into."""

    wrote: int
    """Bytes written; position of the next one."""

    def append(self, data: bytes | memoryview) -> None:
        """Write at that position. OSError."""


@attrs.define(eq=False)
class CommitLog:
    """A plain commit log: records follow one another."""

    files: FileQueue
    lead: int = 0
    """Size of the DLedger entry header before each record, in bytes; 0 in a plain log."""

    @property
    def min_offset(self) -> int:
        return self.files.min_offset

    @property
    def max_offset(self) -> int:
        """End of the readable log."""
        return self.files.max_offset

    @property
    def written_end(self) -> int:
        """End of the stored log; not all of it may be readable."""
        return self.files.max_offset

    @property
    def all_files(self) -> list[LogFile]:
        """The files, oldest first."""
        return self.files.files

    def file_at(self, offset: int) -> LogFile | None:
        """Return the file that holds this offset, written or not."""
        return self.files.file_at(offset)

    def file_from(self, offset: int) -> LogFile | None:
        """Return the file that holds this offset, or the one behind a gap there.

        Recovery walks from file to file, too (CommitLog.recoverAbnormally).
        """
        found = self.file_at(offset)
        return found or next((file for file in self.all_files if file.first_offset > offset), None)

    def entry_header_size(self, _file: LogFile) -> int:
        """Return the size of the DLedger entry header before each record of a file."""
        return self.lead

    def load(self) -> None:
        """Map the existing files.

        OSError; StoreCorrupt, also for a file of another place in the log.
        """
        self.files.load()
        for file in self.files.files:
            found = physical_offset_of(file.read_head())
            # Another offset in the same file is of `append_stream`; without a whole record, the file is torn.
            if not _is_in(file, found) and _begins_with_record(file):
                raise StoreCorrupt(
                    f"{file.path} begins with the record of commit log offset {found}: it is another file"
                )

    def close(self) -> None:
        self.files.close()

    # ---- for flushes ----

    def files_grown_beyond(self, offset: int) -> list[LogFile]:
        """Return the files to sync: those with bytes after an offset."""
        return [file for file in self.files.files if file.end_offset > offset]

    def begins_record(self, offset: int) -> bool:
        """Return True if the record at an offset states this offset."""
        record = self.record(offset)
        return record is not None and physical_offset_of(record) == offset

    def walk(self, view: memoryview, start: int, limit: int) -> tuple[int, Walk]:
        """Walk over the whole records of one file, as `recovery.walk_records`."""
        return walk_records(view, start, limit, check_crc=True)

    def group_facts(self) -> dict[str, object] | None:
        """Return the state of the DLedger member, for the broker's runtime info.

        None if the broker is not a member of a DLedger group.
        """
        return None

    # ---- expired files, full disks ----

    @property
    def droppable(self) -> int:
        """The number of oldest files that may be deleted."""
        return max(0, len(self.all_files) - 1)

    @property
    def extra_hours(self) -> int:
        """Return the hours that files are kept beyond `file_reserved_time`."""
        return 0

    def note_synced(self, offset: int) -> None:
        """React to a sync of the log up to an offset, or to a start or a cut."""

    def note_used(self, used_percent: int) -> None:
        """Set the disk usage. Only a DLedger log uses it, to refuse appends."""

    def deletion_of_first(self) -> DiskCalls[None]:
        """Yield the calls that delete the oldest file. OSError keeps it."""
        return self.files.deletion_of_first()

    # ---- dispatch ----

    def is_blank(self, file: LogFile, at: int) -> bool:
        """True if the rest of a file is declared empty at this position."""
        return bool(_PREFIX.unpack_from(file.map, at)[1] == BLANK_MAGIC)

    def is_entry_of(self, _file: LogFile, _at: int, _size: int, _physical: int) -> bool:
        """True if a record of this size and offset fills the DLedger entry there."""
        return False

    def after_entry(self, _file: LogFile, _at: int) -> int | None:
        """Return the position behind a DLedger entry that is no message, or None."""
        return None

    # ---- master: whole records ----

    def space_for(self, size: int, *, mapped: bool = True) -> RecordSpace:
        """Return the file with room for `size` contiguous bytes (store-ha#11).

        Creates a new file if necessary. Raises OSError if the disk has no room. The caller checks that the bytes fit
        into an empty file, and writes them through the mapping or with `append`.
        """
        files = self.files.files
        file = files[-1] if files else self.files.file_to_write()
        end = file.wrote + size + BLANK_SIZE
        if end > file.size:
            return self._roll(file, size)
        if not mapped:
            file.ensure_blocks(end)
        elif end > file.room:
            file.ensure_room(end)
        return file

    def _roll(self, full: LogFile, size: int) -> LogFile:
        """Allocate the next file, then write the end-of-file blank into the full one."""
        left = full.size - full.wrote
        if left:
            full.ensure_room(full.wrote + BLANK_SIZE)
        file = self.files.add(full.first_offset + full.size)
        try:
            file.ensure_room(size + BLANK_SIZE)
        except OSError:
            self.files.files.pop().discard()
            raise
        if left:  # zero only where a replicated blank or a predecessor's crash left the file exactly full
            _PREFIX.pack_into(full.map, full.wrote, left, BLANK_MAGIC)
            full.wrote = full.size
        full.end_appends()
        return file

    # ---- slave: raw bytes in order ----

    def append_stream(self, offset: int, data: bytes | memoryview) -> bool:
        """Append bytes of a master's stream (section 4.5, store-ha#44). OSError: no room.

        The very first file begins at the boundary below `offset`, and the bytes are written at its start, not at
        `offset`. False if the bytes do not fit into the rest of the file: RocketMQ drops them. StoreCorrupt, and
        nothing is appended, if the file would begin with a record of another file: `load` would not accept it.
        """
        file = self.files.file_to_write(offset)
        if file.size - file.wrote < len(data):
            return False
        if file.wrote < _HEAD_SIZE <= file.wrote + len(data):
            head = bytes(file.view[: file.wrote]) + bytes(data[: _HEAD_SIZE - file.wrote])
            stated = physical_offset_of(memoryview(head))
            if _PREFIX.unpack_from(head)[1] == MESSAGE_MAGIC and not _is_in(file, stated):
                raise StoreCorrupt(f"{file.path} would begin with the record of commit log offset {stated}")
        file.append(data)
        return True

    def cut(self, end: int) -> None:
        """Truncate at `end`; later bytes are zeroed.

        Never raises OSError (see `LogFile.discard`).
        """
        wrote = {file.first_offset: file.wrote for file in self.files.files}
        self.files.trim(end)
        file = self.files.last
        if file is None:
            return
        for start in range(file.wrote, wrote[file.first_offset], _ZEROED_AT_ONCE):
            stop = min(start + _ZEROED_AT_ONCE, wrote[file.first_offset])
            file.map[start:stop] = bytes(stop - start)

    # ---- reading ----

    def read(self, offset: int, limit: int) -> memoryview:
        """Return readable bytes from `offset`, never across the end of a file.

        Possibly empty.
        """
        file = self.file_at(offset)
        if file is None:
            return memoryview(b"")
        at = offset - file.first_offset
        return file.view[at : min(file.wrote, at + limit)]

    def slice(self, offset: int, size: int) -> memoryview | None:
        """Return exactly these bytes; None if one file does not have all of them."""
        file = self.file_at(offset)
        if file is None:
            return None
        at = offset - file.first_offset
        return file.view[at : at + size] if size > 0 and at + size <= file.wrote else None

    def record(self, offset: int) -> memoryview | None:
        """Return the whole record that starts at `offset`, or None."""
        file = self.file_at(offset)
        if file is None:
            return None
        at = offset - file.first_offset
        if at + _PLAIN_SIZE + 3 > file.wrote:
            return None
        size, magic = _PREFIX.unpack_from(file.map, at)
        if magic != MESSAGE_MAGIC or size <= _PLAIN_SIZE or at + size > file.wrote:
            return None
        return file.view[at : at + size]

    def dispatch_start(self, offset: int) -> int | None:
        """Return where dispatch begins for the record at `offset`.

        That is its entry header, if it has one. None if no record states this offset.
        """
        record, file = self.record(offset), self.file_at(offset)
        if record is None or file is None or physical_offset_of(record) != offset:
            return None
        return offset - self.entry_header_size(file)

    def stored_at(self, offset: int) -> int:
        """Return the store time of the record at `offset`, in ms; -1 without a record."""
        record = self.record(offset)
        if record is None:
            return -1
        (sys_flag,) = _INT.unpack_from(record, SYS_FLAG_AT)
        stored_at: int = _LONG.unpack_from(record, store_time_at(sys_flag))[0]
        return stored_at
