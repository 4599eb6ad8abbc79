"""Surveys of journal files: damaged bytes, missing and repeated entries.

They also report entries of other processes, whether the file is closed, and whether its bytes are those that the
process wrote. The ranges of a file can be surveyed separately, and their surveys joined.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import cattrs

from rmqlab.runtime.crc import crc_of_range, joined_crc
from rmqlab.runtime.journals.journalentry import CLOSED, OPENED, SEALS, JournalEntry
from rmqlab.runtime.journals.journalfiles import SUPERVISOR, journal_files
from rmqlab.runtime.journals.journalreader import Torn, scan_journal
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.runtime.regularfile import open_regular

MOST_NOTED = 100
"""Maximum number of damaged places, of breaks in the sequence numbers, and of runs, that a survey lists."""


_NOT_ACKNOWLEDGED: Final = ("refused", "indeterminate")
_PLACE: Final = ("broker", "queue", "offset")


@attrs.frozen
class Break:
    """A place where the sequence numbers of entries are not consecutive."""

    at: int
    """Offset in bytes of the entry with the unexpected number."""
    expected: int
    found: int


@attrs.define(kw_only=True)
class Stretch:
    """Bytes of a journal between entries that open or close it."""

    begin: int
    size: int = 0
    crc: int = 0
    """CRC-32 of the bytes."""
    is_opened: bool = False
    """True if it begins with `journal_opened`."""
    sealed: int | None = None
    """If it begins with a last entry, the CRC-32 that this states of the bytes before it."""


@attrs.define(kw_only=True)
class JournalSurvey:
    """The survey of one range of a journal file, or, joined, of the whole file."""

    process: str
    size: int
    """Size of the whole file in bytes."""
    begin: int = 0
    """Offset of the range in bytes."""
    entries: int = 0
    kinds: collections.Counter[str] = attrs.field(factory=collections.Counter)
    """Number of entries by kind."""
    torn: list[Torn] = attrs.field(factory=list)
    """The first MOST_NOTED places with bytes that are not an entry, without a torn tail."""
    torn_bytes: int = 0
    """Number of bytes that are not part of an entry, without the tail."""
    tail_bytes: int = 0
    """Number of bytes at the end of the file that are not part of an entry."""
    breaks: list[Break] = attrs.field(factory=list)
    """The first MOST_NOTED places where sequence numbers are not consecutive."""
    foreign: int = 0
    """Number of entries that another process wrote, or would have written to its own journal."""
    foreign_of: str = ""
    """The process of the first of them."""
    earliest: int | None = None
    """Lowest time of an entry, in milliseconds of the cluster's clock, as `latest`."""
    latest: int | None = None
    went_back: int = 0
    """Milliseconds between the latest time of an entry and the earliest one behind it: how far the clock went back."""
    first: tuple[int, int] | None = None
    """Offset and sequence number of the range's first entry. The number is 0 in versions 1 and 2."""
    last_seq: int = 0
    last_kind: str = ""
    counted: collections.Counter[str] = attrs.field(factory=collections.Counter)
    """Number of sends by outcome, and of deliveries under `delivered`."""
    stated: collections.Counter[str] = attrs.field(factory=collections.Counter)
    """The same numbers, as the workload counted them itself when it ended."""
    unchecked: int = 0
    """Number of sends of single messages without the checksum of their content."""
    unplaced: int = 0
    """Number of acknowledged sends without broker, queue or offset."""
    runs: list[str] = attrs.field(factory=list)
    """The different ids of runs that the file names: one in a sound file, none before version 4."""
    stretches: list[Stretch] = attrs.field(factory=list)
    """The first MOST_NOTED stretches, or one more. `survey_range` adds the first one and the checksums."""

    def add(self, found: tuple[int, JournalEntry] | Torn) -> None:
        """Add an entry, or bytes that are not an entry."""
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
        self._count(entry.kind, entry.fields)
        self._continue_at(entry.at_millis)
        self._widen(entry.at_millis, entry.at_millis)
        if (owner := _owner(entry)) != self.process:
            self.foreign += 1
            self.foreign_of = self.foreign_of or owner
        self.last_seq, self.last_kind = entry.seq, entry.kind
        if entry.kind == OPENED:
            self._note_runs([str(entry.fields.get("run") or "")])
        if entry.kind == OPENED or entry.kind in SEALS:
            sealed = entry.fields.get("crc") if entry.kind in SEALS else None
            self._note_stretch(Stretch(begin=at, is_opened=entry.kind == OPENED, sealed=sealed))

    def _note_stretch(self, stretch: Stretch) -> None:
        if len(self.stretches) <= MOST_NOTED:
            self.stretches.append(stretch)

    def add_checksums(self, file: int, end: int) -> None:
        """Compute the checksums of all stretches of a range.

        It ends at a place of the file.
        """
        if not self.stretches or self.stretches[0].begin > self.begin:
            self.stretches.insert(0, Stretch(begin=self.begin))
        for one, after in zip(self.stretches, [*(one.begin for one in self.stretches[1:]), end], strict=True):
            one.size = max(after - one.begin, 0)
            one.crc = crc_of_range(file, one.begin, after)

    @property
    def is_altered(self) -> bool:
        """True if the checksum of one start of the process is that of other bytes.

        Unless damage in these bytes explains it.
        """
        if len(self.breaks) >= MOST_NOTED or sum(torn.size for torn in self.torn) != self.torn_bytes:
            return False  # some damage is not listed, and may be anywhere
        crc, begin = 0, None
        for one in self.stretches[:MOST_NOTED]:
            is_wrong = begin is not None and one.sealed is not None and one.sealed != crc
            if is_wrong and not self._is_damaged_between(begin or 0, one.begin):
                return True
            begin = one.begin if one.is_opened else begin
            crc = one.crc if one.is_opened else joined_crc(crc, one.crc, one.size)
        return False

    def _is_damaged_between(self, begin: int, end: int) -> bool:
        """Return True if a range has bytes that are no entry.

        Also if an entry is missing or repeated between the entries at `begin` and `end`.
        """
        is_broken = any(begin < one.at <= end for one in self.breaks)
        return is_broken or any(begin <= torn.at < end for torn in self.torn)

    def _add_torn(self, torn: Torn) -> None:
        if torn.at + torn.size == self.size:
            self.tail_bytes = torn.size
            return
        self.torn_bytes += torn.size
        if len(self.torn) < MOST_NOTED:
            self.torn.append(torn)

    def _count(self, kind: str, fields: Mapping[str, Any]) -> None:
        if kind == "sent":
            self.counted[str(fields.get("outcome"))] += 1
            self.unchecked += fields.get("crc") is None and "," not in str(fields.get("message_id") or ",")
            is_acknowledged = fields.get("outcome") not in _NOT_ACKNOWLEDGED
            self.unplaced += is_acknowledged and any(fields.get(name) is None for name in _PLACE)
        elif kind == "delivered":
            self.counted["delivered"] += 1
        elif kind in ("produced", "consumed"):
            self.stated.update({name: n for name, n in fields.items() if name != "sent" and type(n) is int})

    def _note_runs(self, runs: Iterable[str]) -> None:
        new = [run for run in runs if run and run not in self.runs]
        self.runs += new[: MOST_NOTED - len(self.runs)]

    def _continue_at(self, earliest: int) -> None:
        """Compare the following entries with the times so far."""
        if self.latest is not None:
            self.went_back = max(self.went_back, self.latest - earliest)

    def _widen(self, earliest: int, latest: int) -> None:
        self.earliest = earliest if self.earliest is None else min(self.earliest, earliest)
        self.latest = latest if self.latest is None else max(self.latest, latest)

    def _count_on(self, at: int, seq: int) -> None:
        is_numbered = seq or self.last_seq
        if is_numbered and seq != self.last_seq + 1 and len(self.breaks) < MOST_NOTED:
            self.breaks.append(Break(at, self.last_seq + 1, seq))

    def append(self, part: "JournalSurvey") -> None:
        """Add the survey of the next range."""
        if part.first is not None:
            self._count_on(*part.first)
            self.first = self.first or part.first
            self.last_seq, self.last_kind = part.last_seq, part.last_kind
        self.entries += part.entries
        self.kinds += part.kinds
        self.counted += part.counted
        self.stated += part.stated
        self.unchecked += part.unchecked
        self.unplaced += part.unplaced
        self.torn += part.torn
        self.torn_bytes += part.torn_bytes
        self.tail_bytes += part.tail_bytes
        self.breaks += part.breaks
        self.foreign += part.foreign
        self.foreign_of = self.foreign_of or part.foreign_of
        self._note_runs(part.runs)
        for stretch in part.stretches:
            self._continue_stretch(stretch)
        self.went_back = max(self.went_back, part.went_back)
        if part.earliest is not None and part.latest is not None:
            self._continue_at(part.earliest)
            self._widen(part.earliest, part.latest)

    def _continue_stretch(self, next_one: Stretch) -> None:
        """Add the next stretch.

        One that begins with the range continues the last of the range before.
        """
        if not self.stretches or next_one.is_opened or next_one.sealed is not None:
            self._note_stretch(attrs.evolve(next_one))
        elif len(self.stretches) <= MOST_NOTED:
            last = self.stretches[-1]
            last.crc, last.size = joined_crc(last.crc, next_one.crc, next_one.size), last.size + next_one.size

    @property
    def is_numbered(self) -> bool:
        """True if the file's entries are numbered, as they are since version 3."""
        return self.last_seq > 0

    @property
    def has_begin(self) -> bool:
        """True if the first entry is that of a new file, or has no number."""
        return self.first is not None and self.first[1] <= 1 and not self.torn_bytes

    @property
    def is_closed(self) -> bool:
        """True if the file ends with the entry of a regular stop."""
        return self.last_kind == CLOSED and not self.tail_bytes

    def as_fields(self) -> dict[str, Any]:
        """Return this survey as plain values."""
        fields: dict[str, Any] = cattrs.unstructure(self)
        return fields


def _owner(entry: JournalEntry) -> str:
    """Return the process in whose journal an entry belongs."""
    kind = EVENT_TYPES.get(entry.kind)
    is_supervisors = kind is not None and kind.source == "supervisor"
    return SUPERVISOR if is_supervisors or not entry.node else entry.node


def survey_of_fields(fields: Mapping[str, Any]) -> JournalSurvey:
    """Return the survey of the result of `as_fields`."""
    counters = {name: collections.Counter(fields[name]) for name in ("kinds", "counted", "stated")}
    return cattrs.structure({**fields, **counters}, JournalSurvey)


def join_surveys(parts: Iterable[JournalSurvey]) -> list[JournalSurvey]:
    """Return one survey per file, joined from those of its ranges.

    Sequence numbers must start at 1.
    """
    files: dict[str, JournalSurvey] = {}
    for part in sorted(parts, key=lambda part: (part.process, part.begin)):
        files.setdefault(part.process, JournalSurvey(process=part.process, size=part.size)).append(part)
    return list(files.values())


def survey_journals(directory: Path) -> tuple[list[list[JournalEntry]], list[JournalSurvey]]:
    """Return entries and survey of each file of a journal directory.

    OSError for an unreadable file.
    """
    journals, surveys = [], []
    for path in journal_files(directory):
        survey = JournalSurvey(process=path.stem, size=path.stat().st_size)
        journals.append(list(_surveyed(path, survey)))
        surveys.append(survey)
    return journals, join_surveys(surveys)


def _surveyed(path: Path, survey: JournalSurvey) -> Iterator[JournalEntry]:
    with open_regular(path) as file:
        for found in survey_range(file.fileno(), survey):
            if not isinstance(found, Torn):
                yield found[1]


def survey_range(file: int, survey: JournalSurvey, end: int | None = None) -> Iterator[tuple[int, JournalEntry] | Torn]:
    """Yield what `scan_journal` finds, and add it to the survey.

    The range begins where the survey begins.
    """
    for found in scan_journal(file, survey.begin, end):
        survey.add(found)
        yield found
    survey.add_checksums(file, survey.size if end is None else min(end, survey.size))
