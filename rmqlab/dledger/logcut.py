"""The cut end of a log: it is gone from the disk before an entry follows.

DLedger leaves cut bytes in the file. After a kill it finds such entries again, while its leader continues behind them:
two logs then differ permanently. So the log ends with zeros, which real members do not read. They are synced: after a
power loss, too, cut entries must not follow new ones of their size.
"""

import functools
from collections.abc import Iterable

import attrs

from rmqlab.dledger.recovery import zero
from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.files.logfile import LogFile


@attrs.define(eq=False)
class LogCut:
    """The last cut of the data files, until it is durable."""

    data: FileQueue
    _zeros_until: int | None = None
    """Position before which the bytes behind the end become zeros; None once they are on disk."""
    _detached: list[LogFile] = attrs.field(factory=list)
    """Files that are to be deleted, newest first: a kill before the last one leaves an earlier log."""

    @property
    def is_pending(self) -> bool:
        """True until the cut is durable. No entry may be written."""
        return self._zeros_until is not None

    def begin(self, written: int, detached: Iterable[LogFile]) -> None:
        """Note that the data files were cut, which had been written up to a position."""
        self._zeros_until = max(written, self._zeros_until or 0)
        self._detached += detached

    def completion(self) -> DiskCalls[None]:
        """Yield the calls that make the cut durable.

        OSError. The next try writes the zeros again: the system may count pages of a failed sync as clean.
        """
        while self._detached:
            yield self._detached[0].delete
            del self._detached[0]
        last, until = self.data.last, self._zeros_until
        if last is not None and until is not None and until > last.end_offset:
            yield functools.partial(zero, last, last.wrote, min(until - last.first_offset, last.size))
            yield last.sync
        self._zeros_until = None
