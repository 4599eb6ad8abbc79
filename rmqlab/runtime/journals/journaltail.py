"""Follows the journals of a directory while processes write them."""

import contextlib
import io
import operator
from pathlib import Path
from typing import Any

import attrs

from rmqlab.runtime.journals.journalentry import BROKEN, JournalEntry, new_unpacker, whole_entries
from rmqlab.runtime.journals.journalfiles import journal_files
from rmqlab.runtime.journals.journalreader import READ_BYTES


@attrs.define(eq=False)
class JournalTail:
    """Reads the files of a directory as they grow.

    A missing file is read once it exists.
    """

    directory: Path
    _unpackers: dict[Path, tuple[io.FileIO, Any]] = attrs.field(factory=dict, init=False)

    def read_new(self) -> list[JournalEntry]:
        """Return all whole entries since the last call, by time."""
        # The supervisor's file is read first and yielded last: all events of a process are yielded before its end.
        new = [
            entry
            for part in reversed([self._new_in(path) for path in reversed(journal_files(self.directory))])
            for entry in part
        ]
        new.sort(key=operator.attrgetter("at_millis"))
        return new

    def _new_in(self, path: Path) -> list[JournalEntry]:
        new: list[JournalEntry] = []
        with contextlib.suppress(FileNotFoundError, *BROKEN):
            if path not in self._unpackers:
                self._unpackers[path] = io.FileIO(path), new_unpacker()
            file, unpacker = self._unpackers[path]
            while data := file.read(READ_BYTES):
                unpacker.feed(data)
                new += whole_entries(unpacker)
        return new

    def close(self) -> None:
        for file, _ in self._unpackers.values():
            file.close()
        self._unpackers.clear()
