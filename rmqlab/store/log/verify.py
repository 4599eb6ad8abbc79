"""Checks that bytes received from a master are valid records. No I/O.

The physical offset of each record must equal its position in the log. RocketMQ's slave writes received bytes unchecked,
and detects damage when it dispatches them, or never (store-and-ha section 4.5).
"""

import struct
from typing import Final

import attrs

from rmqlab.remoting.message import BLANK_MAGIC, BLANK_SIZE, HEADS, MESSAGE_MAGIC, PHYSICAL_OFFSET_AT
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.log.recovery import record_size

_PREFIX: Final = struct.Struct(">ii")
_LONG: Final = struct.Struct(">q")
_LEAST: Final = HEADS[0].size + 3


@attrs.define(eq=False)
class LogVerifier:
    """Checks a growing log incrementally, from the start of a record."""

    log: CommitLog
    verified: int
    """Everything before this offset is valid."""

    def find_fault(self) -> int | None:
        """Check the bytes received since the last call.

        Return the offset of the first invalid record; None if all complete records are valid.
        """
        self.verified = max(self.verified, self.log.min_offset)
        while (file := self.log.files.file_at(self.verified)) is not None:
            at = self.verified - file.first_offset
            if file.wrote - at < BLANK_SIZE:
                # Behind every record there is room for a blank; only a file's end may be nearer.
                return self.verified if file.is_full and at < file.size else None
            size, magic = _PREFIX.unpack_from(file.map, at)
            if magic == BLANK_MAGIC and size == file.size - at:
                if not file.is_full:
                    return None
            elif magic != MESSAGE_MAGIC or not _LEAST <= size <= file.size - at:
                return self.verified
            elif at + size > file.wrote:
                return None
            elif not _is_record(file, at, size):
                return self.verified
            self.verified += size
        return None


def _is_record(file: LogFile, at: int, size: int) -> bool:
    stands_at: int = _LONG.unpack_from(file.map, at + PHYSICAL_OFFSET_AT)[0]
    if stands_at != file.first_offset + at:
        return False
    view = file.view[: file.wrote]
    try:
        return record_size(view, at, check_crc=True) == size
    finally:
        view.release()
