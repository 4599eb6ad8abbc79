"""Durability in two steps: a job that only syncs, fit for a worker thread, and its result taken in the loop.

How far the log is surely on disk must outlive `kill -9`, so that a power loss can be played: kill the process,
then erase what was never synced. It is kept in `config/rmqlab.flushed`, a name that RocketMQ does not look at:
two int64, the commit log offset up to which records, and up to which their queue entries, were synced.
"""

import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from store.consumequeue import ConsumeQueue

_MARKS: Final = struct.Struct(">qq")


@attrs.define(eq=False)
class FlushJob:
    """`run` may take long, in any thread; OSError when a sync fails. Then give it to the store."""

    target: int  # commit log offset that is synced, or below which all queue entries are, once it ran
    syncs: Sequence[Callable[[], None]]
    log_stored_at: int | None = None  # of a job for the log: store time of the last message before `target`
    positions: Sequence[tuple[ConsumeQueue, int]] = ()  # of a job for the queues: how far each will be synced

    def run(self) -> None:
        for sync in self.syncs:
            sync()


@attrs.define(eq=False)
class FlushedMarks:
    """The two flushed positions. Written to the page cache only: a lost one costs a repeated power loss."""

    path: Path
    log: int = 0
    queues: int = 0
    _descriptor: int = attrs.field(default=-1, init=False)

    @classmethod
    def open(cls, path: Path) -> "FlushedMarks":
        path.parent.mkdir(parents=True, exist_ok=True)
        marks = cls(path)
        marks._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        raw = os.pread(marks._descriptor, _MARKS.size, 0)
        if len(raw) == _MARKS.size:
            marks.log, marks.queues = _MARKS.unpack(raw)
        return marks

    def write(self) -> None:
        os.pwrite(self._descriptor, _MARKS.pack(self.log, self.queues), 0)

    def close(self) -> None:
        os.close(self._descriptor)
