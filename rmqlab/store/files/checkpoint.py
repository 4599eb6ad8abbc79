"""Checkpoint: the times up to which files are known to be on disk (section 1.2).

Three timestamps in a file of 4096 bytes (store-ha#3).
"""

import os
import struct
from pathlib import Path
from typing import Final

import attrs

from rmqlab.store.files.disk import Disk

_TIMES: Final = struct.Struct(">qqq")
SIZE: Final = 4096


@attrs.define
class Checkpoint:
    """The three times of the file, in ms. Changes are on disk after `write`."""

    path: Path
    physic_msg_timestamp: int = 0  # store time of the last message known flushed in the commit log
    logics_msg_timestamp: int = 0  # store time of the last message put in a consume queue
    index_msg_timestamp: int = 0  # store time of the last message in a full, flushed index file
    disk: Disk = attrs.field(factory=Disk, eq=False, repr=False)

    @classmethod
    def load(cls, path: Path, disk: Disk | None = None) -> "Checkpoint":
        """Read the file; missing values are 0.

        OSError if the file exists and cannot be read.
        """
        disk = disk or Disk()
        try:
            raw = disk.read_start(path, _TIMES.size)
        except FileNotFoundError:
            raw = b""
        physic, logics, index = _TIMES.unpack(raw.ljust(_TIMES.size, b"\0"))
        return cls(path, physic, logics, index, disk)

    @property
    def safe_timestamp(self) -> int:
        """Return the time (ms) up to which messages are on disk, in log and queues.

        The 3 s allow for rounding of the timestamps.
        """
        return min(self.physic_msg_timestamp, self.logics_msg_timestamp) - 3000

    def lower(self, stored_at: int) -> None:
        """Lower all timestamps to `stored_at` (ms) after a truncation of the log.

        `stored_at` is the store time of the last message left.
        """
        self.physic_msg_timestamp = min(self.physic_msg_timestamp, stored_at)
        self.logics_msg_timestamp = min(self.logics_msg_timestamp, stored_at)
        self.index_msg_timestamp = min(self.index_msg_timestamp, stored_at)

    def write(self) -> None:
        """Write and sync the file.

        A flush job does so in a worker thread, with a checkpoint of its own.
        """
        packed = _TIMES.pack(self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp)
        with self.disk.opened(self.path, os.O_RDWR | os.O_CREAT) as descriptor:
            if os.fstat(descriptor).st_size < SIZE:
                self.disk.truncate(descriptor, SIZE)
            self.disk.write(descriptor, packed, 0)
            self.disk.sync(descriptor)
