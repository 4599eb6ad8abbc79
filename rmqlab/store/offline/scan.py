"""Reads a store's commit log from its files alone, of any broker.

The store may belong to a running or stopped broker, ours or RocketMQ's. It is not locked, changed or recovered. Damage
does not end the scan: it continues at the next record that states its own place in the log. So records behind a hole
are found, which a broker's recovery after a crash would cut off (store-and-ha section 3.5). RocketMQ does not clear
what it cuts off: old records behind the end of a log that was truncated, and not yet overwritten, look like records
behind a hole.
"""

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
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.log.loglayout import entry_header_at, files_in, is_unused, load_record

_HEAD: Final = struct.Struct(">ii20xq")
_PREFIX: Final = struct.Struct(">ii")
_MAGIC: Final = struct.pack(">i", MESSAGE_MAGIC)
_MAGIC_AT: Final = 4


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
            with FileImage.open(path) as image:
                for message in self._messages_of(image, int(path.name)):
                    self.holes += self._unreadable
                    self._unreadable.clear()
                    self.end_offset = message.physical_offset + message.store_size
                    yield message
            self.reason = "the end of the last file"
        if self._unreadable:
            self.reason = self._unreadable[0].reason

    def _messages_of(self, image: FileImage, base: int) -> Iterator[StoredMessage]:
        at, view = 0, image.view
        while at + BLANK_SIZE <= image.size:
            load_record(image, at)
            if is_unused(view, at):
                return
            at += entry_header_at(view, at, base)
            found = _read(view, at, base)
            if isinstance(found, StoredMessage):
                at += found.store_size
                yield found
                continue
            following = next_record(image, at + 1, base)
            again = _read_again(image, at, base) if following < image.size else found
            if isinstance(again, StoredMessage):  # a broker that runs wrote it, and the one behind, in the meantime
                at += again.store_size
                yield again
                continue
            self._unreadable.append(Hole(base + at, following - at, found))
            at = following


def next_record(image: FileImage, at: int, base: int) -> int:
    """Return the first place from `at` on where a record begins. OSError.

    The file's length if there is no such place. `base` is the log offset of the file's first byte.
    """
    # up to the end of a mapping, Python before 3.11.5 reads a byte behind it
    end, low = min(image.written, image.size - 1), at + _MAGIC_AT
    while low < end:
        image.load(low - _MAGIC_AT, low + FIXED_SIZE)
        high = min(image.high, end)
        found = image.map.find(_MAGIC, low, high)
        if found < 0:
            if high == end:
                break
            low = high - len(_MAGIC) + 1
            continue
        begin = found - _MAGIC_AT
        image.load(begin, begin + FIXED_SIZE)
        if begins_record(image.view, begin, base):
            return begin
        low = found + 1
    return image.size


def begins_record(view: memoryview, at: int, base: int) -> bool:
    """True if the bytes at `at` begin a record that fits and states this offset.

    It must fit into the file, which `view` has the length of. The file's first byte is at log offset `base`.
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


def _read_again(image: FileImage, at: int, base: int) -> StoredMessage | str:
    """`_read` of what the file has now."""
    image.forget()
    load_record(image, at)
    return _read(image.view, at, base)
