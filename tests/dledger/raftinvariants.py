"""The safety properties of Raft, checked while a simulated group runs.

An acknowledged entry is kept for good from the moment at which a majority has it on disk, before another leader is
elected. DLedger acknowledges it earlier: what was not synced may be lost at a power loss (section 7.5).
"""

from collections.abc import Mapping

import attrs

from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore


class InvariantError(AssertionError):
    """A property of Raft does not hold."""


@attrs.define
class Invariants:
    """Facts of a run. `is_durable_when_written`: no member loses power."""

    quorum: int
    is_durable_when_written: bool
    is_kept_when_acknowledged: bool = False
    """Members acknowledge entries after they have synced them."""
    leaders: dict[int, str] = attrs.field(factory=dict)
    """The start of a member that led a term, by term."""
    kept: dict[int, Entry] = attrs.field(factory=dict)
    """Entries that no later leader may lack, by index."""
    acknowledged: int = 0
    """Number of acknowledged entries."""
    _candidates: dict[int, Entry] = attrs.field(factory=dict)
    """Acknowledged entries that are not known to be kept."""

    def elected(self, start: str, term: int, store: EntryStore) -> None:
        """Check election safety and leader completeness."""
        if self.leaders.setdefault(term, start) != start:
            raise InvariantError(f"term {term} has two leaders: {self.leaders[term]} and {start}")
        self.check_has_kept(start, store)

    def check_has_kept(self, start: str, store: EntryStore) -> None:
        """Check that a log has all entries that are kept for good, but expired ones."""
        for index, entry in self.kept.items():
            if index >= store.begin_index and (index > store.end_index or store.get(index) != entry):
                raise InvariantError(f"{start} leads without entry {index} of term {entry.term}")

    def note_acknowledged(self, entries: list[Entry]) -> None:
        """Note entries whose appends succeeded."""
        self.acknowledged += len(entries)
        for entry in entries:
            if (kept := self.kept.get(entry.index)) not in (None, entry):
                raise InvariantError(f"entry {entry.index} is acknowledged twice: {kept} and {entry}")
            if self.is_kept_when_acknowledged:
                self.kept[entry.index] = entry
            else:
                self._candidates[entry.index] = entry

    def observe(self, stores: Mapping[str, EntryStore]) -> None:
        """Find acknowledged entries that a majority has on disk."""
        newest = max(self.leaders, default=-1)
        for index, entry in list(self._candidates.items()):
            if entry.term < newest:
                del self._candidates[index]
            elif sum(self._has(store, entry) for store in stores.values()) >= self.quorum:
                self.kept[index] = self._candidates.pop(index)

    def _has(self, store: EntryStore, entry: Entry) -> bool:
        if not store.begin_index <= entry.index <= store.end_index or store.get(entry.index) != entry:
            return False
        return self.is_durable_when_written or entry.end <= store.synced_end

    @staticmethod
    def check_logs_match(stores: Mapping[str, EntryStore]) -> None:
        """Check that logs with an equal entry are equal before it."""
        logs = [(name, _entries(store)) for name, store in stores.items()]
        for at, (one, first) in enumerate(logs):
            for other, second in logs[at + 1 :]:
                _check_match(one, first, other, second)


def _entries(store: EntryStore) -> dict[int, Entry]:
    return {index: store.get(index) for index in range(max(0, store.begin_index), store.end_index + 1)}


def _check_match(one: str, first: Mapping[int, Entry], other: str, second: Mapping[int, Entry]) -> None:
    common = sorted(first.keys() & second.keys(), reverse=True)
    equal_from = next((index for index in common if first[index].term == second[index].term), -1)
    for index in common:
        if index <= equal_from and first[index] != second[index]:
            raise InvariantError(f"{one} and {other} agree on the term of {equal_from}, not on entry {index}")
