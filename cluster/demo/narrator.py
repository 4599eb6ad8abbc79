"""Converts a cluster's events into lines for newcomers. No I/O.

Repetitions are one line at their begin and a count at their end, because hundreds of sends fail in the same way.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from rmqlab.runtime.journals.journalentry import JournalEntry

QUIET = frozenset(
    {"sent", "delivered", "rebalanced", "attempt_failed", "command", "registered", "node_starting", "pull_failed"}
)
"""Kinds of events that have no lines of their own."""


@attrs.frozen
class Line:
    """One line of the timeline. `style` is one of good, bad, news, plain."""

    at_millis: int
    who: str
    text: str
    style: str = "plain"


@attrs.define
class Narrator:
    """Returns the lines for each event, without repetitions."""

    roles: Mapping[str, str]
    """Descriptions of nodes, by address, and by IP if no other node has it."""
    outcomes: dict[int, str] = attrs.field(factory=dict)
    """Outcomes of sends, by message number."""
    deliveries: dict[str, list[int]] = attrs.field(factory=dict)
    """Numbers of delivered messages, by workload."""
    _sending: tuple[str, str] = ("", "")
    _in_a_row: int = 0
    _told: set[tuple[str, ...]] = attrs.field(factory=set)

    def lines(self, event: JournalEntry) -> Iterator[Line]:
        """Yield the lines for one event: for most events none."""
        sentence_of = _SENTENCES.get(event.kind)
        if event.kind == "sent":
            yield from self._sent(event)
        elif event.kind == "delivered":
            self.deliveries.setdefault(event.node, []).append(event.fields["number"])
        elif sentence_of is not None:
            said = sentence_of(event.fields, self._name)
            if said is not None:
                text, style = said
                key = (event.node, event.kind, text)
                if event.kind not in _ONCE or key not in self._told:
                    self._told.add(key)
                    yield Line(event.at_millis, event.node, text, style)

    def renew(self) -> None:
        """Allow repetition of earlier lines, at the beginning of an act."""
        self._told.clear()

    def _sent(self, event: JournalEntry) -> Iterator[Line]:
        outcome = str(event.fields["outcome"])
        self.outcomes[int(event.fields["number"])] = outcome
        reason = _reason(str(event.fields.get("error", "")), outcome)
        # Indeterminate sends have many different errors at the same time: only the outcome matters.
        now = (outcome, reason if outcome == "refused" else "")
        if now != self._sending:
            before = f", after {self._in_a_row} {self._sending[0]}" if self._in_a_row else ""
            self._sending, self._in_a_row = now, 0
            text = f"sends now end in {outcome}" + (f": {reason}" if reason else "") + before
            yield Line(event.at_millis, event.node, text, "good" if outcome == "SEND_OK" else "bad")
        self._in_a_row += 1

    def _name(self, address: object) -> str:
        text = str(address)
        return self.roles.get(text) or self.roles.get(text.rpartition(":")[0]) or text


def _reason(error: str, outcome: str) -> str:
    """Return the kind of an error, without the details of a single send."""
    if not error:
        return ""
    if outcome == "indeterminate":  # the in-doubt attempt decides, not later ones
        return next((reason for sign, reason in _DOUBTS.items() if sign in error), _LOST)
    for sign, reason in _REASONS.items():
        if sign in error:
            return reason
    return error.split("\n", 1)[0][:100]


_DOUBTS = {
    "no response": "no response in time; perhaps stored, and the producer retries",
    "the producer was stopped": "the producer was stopped before the response; perhaps stored",
}
_LOST = "the connection closed before the response; perhaps stored"
_REASONS = {
    "no nameserver": "no nameserver responds",
    "onnection refused": "connection refused at the master's address",
    "no connection to": "no connection to the master in time",
    "no broker of topic": "the route names no master",
    "no known master": "the route names no master",
    "o route": "the route names no master",
}

Name = Callable[[object], str]
Said = tuple[str, str] | None


def _lost(fields: Mapping[str, Any], name: Name) -> Said:
    left = [name(address) for address in fields["remaining"].values()]
    rest = f"; of {fields['broker_name']} only {', '.join(left)} is left" if left else ""
    return f"{name(fields['address'])}'s connection closed: it is out of the route{rest}", "news"


def _registered(fields: Mapping[str, Any], name: Name) -> Said:
    return f"{name(fields['address'])} has registered: it is in the route", "news"


def _unregistered(fields: Mapping[str, Any], name: Name) -> Said:
    return f"{name(fields['address'])} has unregistered: it is out of the route", "news"


def _pulling(fields: Mapping[str, Any], name: Name) -> Said:
    return f"reads from {name(fields['address'])} (broker id {fields['broker_id']})", "news"


def _committing(fields: Mapping[str, Any], name: Name) -> Said:
    return f"commits its offsets to {name(fields['address'])} (broker id {fields['broker_id']})", "news"


def _overwritten(fields: Mapping[str, Any], _name: Name) -> Said:
    return f"its offsets of {fields['key']} were newer, and are overwritten by the master's", "bad"


_SENTENCES: dict[str, Callable[[Mapping[str, Any], Name], Said]] = {
    "broker_connection_lost": _lost,
    "broker_registered": _registered,
    "broker_unregistered": _unregistered,
    "pulling_from": _pulling,
    "committing_to": _committing,
    "consumer_offsets_overwritten": _overwritten,
    "commit_failed": lambda _fields, _name: ("a commit of offsets failed; it asks for a new route", "bad"),
    "ha_connected": lambda fields, name: (f"{name(fields['slave'])} is connected for replication", "plain"),
    "ha_first_report": lambda fields, _name: (f"its slave asks for the log from byte {fields['offset']} on", "good"),
    "ha_client_disconnected": lambda _fields, _name: ("the replication stream broke; it reconnects every 5 s", "bad"),
    "master_unknown": lambda _fields, _name: ("receives a route without master: it stops copying metadata", "plain"),
    "node_killed": lambda _fields, _name: ("is dead", "bad"),
    "node_ready": lambda _fields, _name: ("is ready", "good"),
}
_ONCE = frozenset({"pulling_from", "committing_to", "commit_failed", "consumer_offsets_overwritten"})
"""Kinds of events that occur per queue or repeatedly: at most one line of the same text per act."""
