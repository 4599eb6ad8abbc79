"""What the bytes of a journal file show beside its events: damage, missing and repeated entries, and how it ends.

A survey can be made of each range of a file apart from the others, and the surveys of all ranges be joined.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import cattrs

from rmqlab.runtime.journal import CLOSED, JournalEntry, Torn, journal_files, scan_journal

MOST_NOTED = 100
"""Damaged places, and breaks of the count, that a survey names. More are counted only."""


@attrs.frozen
class Break:
    """A place where entries do not count on."""

    at: int
    """First byte of the entry that was found."""
    expected: int
    found: int


@attrs.define(kw_only=True)
class JournalSurvey:
    """What one range of a journal file shows, or, joined, the whole file."""

    process: str
    size: int
    """Bytes of the whole file."""
    begin: int = 0
    """First byte of the range."""
    entries: int = 0
    kinds: collections.Counter[str] = attrs.field(factory=collections.Counter)
    """Entries by kind."""
    torn: list[Torn] = attrs.field(factory=list)
    """The first MOST_NOTED places with bytes that are no entry, a torn tail not among them."""
    torn_bytes: int = 0
    """Bytes that are no entry, without the tail."""
    tail_bytes: int = 0
    """Bytes at the end of the file that are no entry."""
    breaks: list[Break] = attrs.field(factory=list)
    """The first MOST_NOTED places where entries do not count on."""
    first: tuple[int, int] | None = None
    """Place and number of the range's first entry. Versions 1 and 2 do not number entries: 0."""
    last_seq: int = 0
    last_kind: str = ""

    def add(self, found: tuple[int, JournalEntry] | Torn) -> None:
        """Note an entry, or bytes that are none."""
        if isinstance(found, Torn):
            self._add_torn(found)
            return
        at, entry = found
        if self.first is None:
            self.first = (at, entry.seq)
        else:
            self._count_on(at, entry.seq)
        self.entries += 1
        self.kinds[entry.kind] += 1
        self.last_seq, self.last_kind = entry.seq, entry.kind

    def _add_torn(self, torn: Torn) -> None:
        if torn.at + torn.size == self.size:
            self.tail_bytes = torn.size
            return
        self.torn_bytes += torn.size
        if len(self.torn) < MOST_NOTED:
            self.torn.append(torn)

    def _count_on(self, at: int, seq: int) -> None:
        is_numbered = seq or self.last_seq
        if is_numbered and seq != self.last_seq + 1 and len(self.breaks) < MOST_NOTED:
            self.breaks.append(Break(at, self.last_seq + 1, seq))

    def append(self, part: "JournalSurvey") -> None:
        """Add the survey of the range that follows."""
        if part.first is not None:
            self._count_on(*part.first)
            self.last_seq, self.last_kind = part.last_seq, part.last_kind
        self.entries += part.entries
        self.kinds += part.kinds
        self.torn += part.torn
        self.torn_bytes += part.torn_bytes
        self.tail_bytes += part.tail_bytes
        self.breaks += part.breaks

    @property
    def is_numbered(self) -> bool:
        """True if the file's entries are numbered, as they are since version 3."""
        return self.last_seq > 0

    @property
    def is_closed(self) -> bool:
        """True if the file ends as that of a process that ended in good order."""
        return self.last_kind == CLOSED and not self.tail_bytes

    def as_fields(self) -> dict[str, Any]:
        """Plain values."""
        fields: dict[str, Any] = cattrs.unstructure(self)
        return fields


def survey_of_fields(fields: Mapping[str, Any]) -> JournalSurvey:
    """Return the survey that `as_fields` gave."""
    return cattrs.structure({**fields, "kinds": collections.Counter(fields["kinds"])}, JournalSurvey)


def join_surveys(parts: Iterable[JournalSurvey]) -> list[JournalSurvey]:
    """Return one survey for each file, by name, of those of its ranges. Its entries must count from 1."""
    files: dict[str, JournalSurvey] = {}
    for part in sorted(parts, key=lambda part: (part.process, part.begin)):
        files.setdefault(part.process, JournalSurvey(process=part.process, size=part.size)).append(part)
    return list(files.values())


def survey_journals(directory: Path) -> tuple[list[list[JournalEntry]], list[JournalSurvey]]:
    """Read all files of a journal directory: the entries of each, and what the files show. OSError for an unreadable one."""
    journals, surveys = [], []
    for path in journal_files(directory):
        survey = JournalSurvey(process=path.stem, size=path.stat().st_size)
        journals.append(list(_surveyed(path, survey)))
        surveys.append(survey)
    return journals, join_surveys(surveys)


def _surveyed(path: Path, survey: JournalSurvey) -> Iterator[JournalEntry]:
    with path.open("rb") as file:
        for found in scan_journal(file.fileno()):
            survey.add(found)
            if not isinstance(found, Torn):
                yield found[1]
