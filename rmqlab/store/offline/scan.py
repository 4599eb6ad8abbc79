"""Reads a store's commit log from its files alone, of any broker.

The store may belong to a running or stopped broker, ours or RocketMQ's. It is not locked, changed or recovered. Damage
does not end the scan: it continues at the next record that states its own place in the log. So records behind a hole
are found, which a broker's recovery after a crash would cut off (store-and-ha section 3.5). RocketMQ does not clear
what it cuts off: old records behind the end of a log that was truncated, and not yet overwritten, look like records
behind a hole.
"""

import contextlib
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from rmqlab.remoting.message import (
    BLANK_SIZE,
    FIXED_SIZE,
    MESSAGE_MAGIC,
    RecordError,
    StoredMessage,
    decode_message,
)
from rmqlab.runtime.regularfile import open_regular
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.sparse import data_end
from rmqlab.store.log.loglayout import entry_header_at, files_in, is_unused

_HEAD: Final = struct.Struct(">ii20xq")
_PREFIX: Final = struct.Struct(">ii")
_MAGIC: Final = struct.pack(">i", MESSAGE_MAGIC)


@attrs.frozen
class Hole:
    """Bytes of one file that are no record, with records somewhere behind them."""

    offset: int
    """Commit log offset of the first byte."""
    size: int
    """Bytes up to the next record, or to the end of the file."""
    reason: str

    @property
    def end(self) -> int:
        return self.offset + self.size


@attrs.define
class LogScan:
    """One walk through a commit log, file by file from the oldest.

    Once `messages` is exhausted, `end_offset` is where the last record ends, `reason` is why no record follows, and
    `holes` are the ranges before it without records.
    """

    directory: Path
    """The directory of the log's files; see `rmqlab.store.log.loglayout.log_directory`."""
    end_offset: int = 0
    reason: str = "no files"
    holes: list[Hole] = attrs.field(factory=list)
    _unreadable: list[Hole] = attrs.field(factory=list)
    """Holes if a record follows; the torn tail if none does."""

    def messages(self) -> Iterator[StoredMessage]:
        """Yield every whole record in order.

        Their CRC is not checked: see `StoredMessage.is_intact`.
        """
        for path in files_in(self.directory):
            if not path.stat().st_size:
                continue
            with _mapped(path) as view:
                for message in self._messages_of(view, int(path.name), written=data_end(path, Disk())):
                    self.holes += self._unreadable
                    self._unreadable.clear()
                    self.end_offset = message.physical_offset + message.store_size
                    yield message
            self.reason = "the end of the last file"
        if self._unreadable:
            self.reason = self._unreadable[0].reason

    def _messages_of(self, view: memoryview, base: int, written: int) -> Iterator[StoredMessage]:
        at = 0
        while at + BLANK_SIZE <= len(view) and not is_unused(view, at):
            at += entry_header_at(view, at, base)
            found = _read(view, at, base)
            if isinstance(found, StoredMessage):
                at += found.store_size
                yield found
                continue
            following = next_record(view, at + 1, base, written)
            again = _read(view, at, base) if following < len(view) else found
            if isinstance(again, StoredMessage):  # a broker that runs wrote it, and the one behind, in the meantime
                at += again.store_size
                yield again
                continue
            self._unreadable.append(Hole(base + at, following - at, found))
            at = following


def next_record(view: memoryview, at: int, base: int, written: int) -> int:
    """Return the first place from `at` on where a record begins.

    The file's length if there is no such place.

    `view` is a whole mapped file, `base` its first commit log offset. The search ends at `written`.
    """
    mapped = view.obj
    assert isinstance(mapped, mmap.mmap)
    written = min(written, len(view) - 1)  # up to the end, Python before 3.11.5 reads a byte behind the mapping
    found = mapped.find(_MAGIC, at + 4, written)
    while found >= 0:
        if begins_record(view, found - 4, base):
            return found - 4
        found = mapped.find(_MAGIC, found + 1, written)
    return len(view)


def begins_record(view: memoryview, at: int, base: int) -> bool:
    """True if the bytes at `at` begin a record that fits and states this offset.

    It must fit into the file. The file's first byte is at log offset `base`.
    """
    if at + FIXED_SIZE > len(view):
        return False
    size, magic, offset = _HEAD.unpack_from(view, at)
    return bool(magic == MESSAGE_MAGIC and FIXED_SIZE <= size <= len(view) - at and offset == base + at)


def _read(view: memoryview, at: int, base: int) -> StoredMessage | str:
    """Return the record at a place, or the reason why it is invalid."""
    if not begins_record(view, at, base):
        is_zero = view[at : at + _PREFIX.size] == bytes(_PREFIX.size)
        return "nothing written beyond" if is_zero else "no record begins here"
    try:
        return decode_message(view, at)
    except (RecordError, struct.error, UnicodeDecodeError) as exc:
        return f"a torn record: {exc}"


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with (
        open_regular(path) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        yield view
