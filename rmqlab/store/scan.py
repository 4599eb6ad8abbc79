"""Read a store's commit log from its files alone, beside a running broker or long after: ours or a real one's.

Nothing is locked, changed or recovered. What ends the reading is said, for a torn tail is a fact, not an error.
"""

import contextlib
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

import attrs

from rmqlab.remoting.message import BLANK_MAGIC, BLANK_SIZE, MESSAGE_MAGIC, RecordError, StoredMessage, decode_message

_HEAD = struct.Struct(">ii")


@attrs.define
class LogScan:
    """One walk through a commit log, file by file from the oldest.

    `end_offset` is the commit log offset where the walk stands: after it, where the log ends or is torn.
    `reason` says why it ended there.
    """

    directory: Path
    """The commit log's own directory, `commitlog` below a store's root."""
    end_offset: int = 0
    reason: str = ""

    def messages(self) -> Iterator[StoredMessage]:
        """Give every whole record in order. Their CRC is not checked: see `StoredMessage.is_intact`."""
        files = sorted(path for path in self.directory.iterdir() if path.name.isdigit())
        self.reason = "no files"
        for path in files:
            first_offset = int(path.name)
            if path != files[0] and first_offset != self.end_offset:
                self.reason = f"a gap: the file after {self.end_offset} is {path.name}"
                return
            with _mapped(path) as view:
                yield from self._messages_of(view, first_offset)
            if self.end_offset != first_offset + path.stat().st_size:
                return
        self.reason = self.reason or "the end of the last file"

    def _messages_of(self, view: memoryview, first_offset: int) -> Iterator[StoredMessage]:
        at, self.reason = 0, ""
        self.end_offset = first_offset
        while at + BLANK_SIZE <= len(view):
            size, magic = _HEAD.unpack_from(view, at)
            if magic == BLANK_MAGIC and size == len(view) - at:
                self.end_offset = first_offset + len(view)
                return
            if magic != MESSAGE_MAGIC or not BLANK_SIZE < size <= len(view) - at:
                self.reason = "nothing written beyond" if not size and not magic else "no record begins here"
                return
            try:
                message = decode_message(view, at)
            except (RecordError, struct.error, UnicodeDecodeError) as exc:
                self.reason = f"a torn record: {exc}"
                return
            at += size
            self.end_offset = first_offset + at
            yield message


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        yield view
