"""The brokers that may have stored a message which no store has."""

from collections.abc import Iterator

from rmqlab.cluster.checks.history import History
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.findings import Brokers
from rmqlab.verdict.outcomes import REFUSED, STORED


def possible_brokers(message_id: str, history: History) -> Brokers:
    """Return the brokers that its sends, attempts and deliveries name.

    A refused attempt stored nothing. Empty if an acknowledgement names no broker: any may have stored the message.
    """
    names = set(_names(history.by_message.get(message_id, ())))
    return frozenset() if "" in names else frozenset(names)


def _names(entries: tuple[JournalEntry, ...]) -> Iterator[str]:
    """Yield broker names; an empty one for an acknowledgement of an unknown broker."""
    for entry in entries:
        broker, outcome = str(entry.fields.get("broker") or ""), entry.fields.get("outcome")
        if (broker and outcome != REFUSED) or outcome in STORED:
            yield broker
