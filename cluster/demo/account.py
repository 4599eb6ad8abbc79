"""Counts all messages by outcome: sends, records on disk, deliveries. No I/O.

If the outcome of a send is `indeterminate`, neither presence nor absence of the message is an error.
"""

import collections
from collections.abc import Iterable, Mapping

import attrs

from rmqlab.verdict.outcomes import OUTCOMES, STORED

MEANING = {
    "SEND_OK": "stored, and copied to the slave",
    "FLUSH_DISK_TIMEOUT": "stored, but not on disk in time",
    "FLUSH_SLAVE_TIMEOUT": "stored, but the slave did not confirm in time",
    "SLAVE_NOT_AVAILABLE": "stored, on the master only: no slave was connected",
    "indeterminate": "no response: possibly stored",
    "refused": "not stored",
}


@attrs.frozen
class Row:
    """All sends of one outcome."""

    outcome: str
    sent: int
    on_master: int
    on_slave: int
    consumed: int
    lost: tuple[int, ...]
    """Numbers of acknowledged messages that are on no disk."""
    duplicated: tuple[int, ...]
    """Numbers of messages that are stored twice, or delivered twice to one consumer group."""


@attrs.frozen
class OutcomeTable:
    """One row per outcome that occurred, and stored messages without a known send."""

    rows: tuple[Row, ...]
    unknown: int
    """Messages on a disk without a known send."""

    @property
    def sent(self) -> int:
        """Messages passed to the producer."""
        return sum(row.sent for row in self.rows)

    @property
    def lost(self) -> int:
        """Acknowledged messages that are on no disk."""
        return sum(len(row.lost) for row in self.rows)

    @property
    def duplicated(self) -> int:
        """Messages stored or delivered more than once."""
        return sum(len(row.duplicated) for row in self.rows)


def count_outcomes(
    outcomes: Mapping[int, str],
    on_master: Iterable[int],
    on_slave: Iterable[int],
    deliveries: Mapping[str, Iterable[int]],
) -> OutcomeTable:
    """Join outcomes, logs and deliveries by message number.

    `outcomes` is by number; the logs have a number as often as it is stored; `deliveries` are by group.
    """
    master, slave = collections.Counter(on_master), collections.Counter(on_slave)
    by_group = {group: collections.Counter(numbers) for group, numbers in deliveries.items()}
    consumed = {number for counts in by_group.values() for number in counts}
    repeated = {number for counts in (master, slave, *by_group.values()) for number, n in counts.items() if n > 1}
    rows = []
    for outcome in OUTCOMES:
        numbers = sorted(number for number, said in outcomes.items() if said == outcome)
        if not numbers:
            continue
        rows.append(
            Row(
                outcome,
                sent=len(numbers),
                on_master=sum(number in master for number in numbers),
                on_slave=sum(number in slave for number in numbers),
                consumed=sum(number in consumed for number in numbers),
                lost=tuple(n for n in numbers if outcome in STORED and n not in master and n not in slave),
                duplicated=tuple(number for number in numbers if number in repeated),
            )
        )
    return OutcomeTable(tuple(rows), unknown=len((master.keys() | slave.keys()) - outcomes.keys()))
