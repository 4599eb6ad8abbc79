"""Up to when the files are known good (section 1.2): three timestamps in a file of 4096 bytes (store-ha#3)."""

import os
import struct
from pathlib import Path
from typing import Final

import attrs

_TIMES: Final = struct.Struct(">qqq")
SIZE: Final = 4096


@attrs.define
class Checkpoint:
    path: Path
    physic_msg_timestamp: int = 0  # store time of the last message known flushed in the commit log
    logics_msg_timestamp: int = 0  # store time of the last message put in a consume queue
    index_msg_timestamp: int = 0  # store time of the last message in a full, flushed index file

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        raw = path.read_bytes()[: _TIMES.size] if path.exists() else b""
        return cls(path, *_TIMES.unpack(raw.ljust(_TIMES.size, b"\0")))

    @property
    def safe_timestamp(self) -> int:
        """Messages this old are surely in log and queues; 3 s allow for what the timestamps round off."""
        return min(self.physic_msg_timestamp, self.logics_msg_timestamp) - 3000

    def write(self) -> None:
        """Write and sync. A flush job does so in a worker thread, with a checkpoint of its own."""
        packed = _TIMES.pack(self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(descriptor).st_size < SIZE:
                os.ftruncate(descriptor, SIZE)
            os.pwrite(descriptor, packed, 0)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
