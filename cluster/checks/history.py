"""The history of a run: its journal entries, sorted by kind of event."""

import bisect
import collections
import functools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping

import attrs

from rmqlab.cluster.checks.absences import Absence, absences, isolations
from rmqlab.cluster.checks.events import (
    Commit,
    Delivery,
    Failure,
    Member,
    Queue,
    Send,
    read_consumed,
    read_failure,
    read_send,
)
from rmqlab.runtime.journals.journalentry import MESSAGE_KINDS, JournalEntry
from rmqlab.verdict.roles import Roles

_NOISE = MESSAGE_KINDS | {
    "registered", "log_sampled", "rebalanced", "node_spawned", "topics_synced", "groups_synced", "producer_joined",
    "journal_opened", "journal_closed",
}  # fmt: skip
"""Kinds that never explain a finding."""
_AROUND = 3
_MOST_OF_A_MESSAGE = 12


@attrs.frozen(kw_only=True)
class History:
    """A run. Sequences are by time."""

    entries: tuple[JournalEntry, ...]
    sends: tuple[Send, ...]
    failures: tuple[Failure, ...]
    deliveries: tuple[Delivery, ...]
    commits: tuple[Commit, ...]
    group_of: Mapping[str, str]
    """The last consumer group of each node that consumed or committed anything."""
    groups_of: Mapping[str, frozenset[str]]
    """All consumer groups of each such node, by its name."""
    members: Mapping[str, Member]
    roles: Roles
    absences: tuple[Absence, ...]
    stopped: Mapping[str, int]
    """When nodes stopped cleanly with the whole cluster. These events are not in `entries`."""
    closing: tuple[JournalEntry, ...]
    """Entries since the cluster began to stop."""
    by_message: Mapping[str, tuple[JournalEntry, ...]]
    """Entries that name a message, by its unique id."""
    _explaining: tuple[JournalEntry, ...]
    """Entries that may explain a finding, by time."""

    @property
    def ended_at(self) -> int:
        """Time of the last event."""
        return self.entries[-1].at_millis if self.entries else 0

    @property
    def began_at(self) -> int:
        return self.entries[0].at_millis if self.entries else 0

    @functools.cached_property
    def deleted_topics(self) -> Mapping[tuple[str, str], int]:
        """Return the time of the last deletion, by broker name and topic."""
        return self._deletions("topic_deleted", "topic")

    @functools.cached_property
    def deleted_groups(self) -> Mapping[tuple[str, str], int]:
        """Return the time of the last deletion, by broker name and consumer group."""
        return self._deletions("group_deleted", "group")

    def _deletions(self, kind: str, field: str) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for entry in self.of_kind(kind):  # by time
            found[self.broker_of(entry.node), str(entry.fields[field])] = entry.at_millis
        return found

    def is_deleted(self, queue: Queue, at: float = -math.inf) -> bool:
        """Return True if the queue's topic was deleted at this time or later.

        Its offsets then begin at 0 again.
        """
        deleted_at = self.deleted_topics.get((queue.broker, queue.topic))
        return deleted_at is not None and deleted_at >= at

    def brokers(self, name: str) -> list[Member]:
        """Return the members of a broker name, by their last broker ids."""
        found = [member for member in self.members.values() if member.broker == name]
        return sorted(found, key=lambda member: member.broker_id or 0)

    def broker_of(self, node: str) -> str:
        """Return the broker name of a node; its own name if it never became ready."""
        member = self.members.get(node)
        return member.broker if member and member.broker else node

    def of_kind(self, *kinds: str) -> Iterator[JournalEntry]:
        """Yield the entries of these kinds."""
        return (entry for entry in self.entries if entry.kind in kinds)

    def of_node(self, node: str, *kinds: str) -> Iterator[JournalEntry]:
        """Yield entries of these kinds by or about a node, but not of single messages."""
        return (entry for entry in self._by_node.get(node, ()) if entry.kind in kinds)

    @functools.cached_property
    def _by_node(self) -> Mapping[str, list[JournalEntry]]:
        found: dict[str, list[JournalEntry]] = collections.defaultdict(list)
        for entry in self.entries:
            if entry.kind not in MESSAGE_KINDS:
                found[entry.node].append(entry)
        return found

    def about(self, message_id: str) -> tuple[JournalEntry, ...]:
        """Return the first entries of a message by time, process and number."""
        entries = sorted(self.by_message.get(message_id, ()), key=lambda one: (one.at_millis, one.node, one.seq))
        return tuple(entries[:_MOST_OF_A_MESSAGE])

    def around(self, at: int, *message_ids: str) -> tuple[JournalEntry, ...]:
        """Return the entries of these messages, and the few others just around a time."""
        index = bisect.bisect_right(self._explaining, at, key=_at)
        found = [*self._explaining[max(0, index - _AROUND) : index + _AROUND]]
        for message_id in message_ids:
            found += self.about(message_id)
        return tuple(sorted(found, key=_at))


def read_history(entries: Iterable[JournalEntry]) -> History:
    """Sort entries, in order per node; leave out those without a needed field."""
    every = sorted(entries, key=_at)  # stable: events of one millisecond keep their order
    known = _until_stopping(every)
    by_kind: dict[str, list[JournalEntry]] = collections.defaultdict(list)
    for entry in known:
        by_kind[entry.kind].append(entry)
    sends = [read_send(entry) for entry in by_kind["sent"]]
    failures = [read_failure(entry) for entry in by_kind["attempt_failed"]]
    consumed = [one for entry in known if (one := read_consumed(entry)) is not None]
    deliveries = [one for one in consumed if isinstance(one, Delivery)]
    commits = [one for one in consumed if isinstance(one, Commit)]
    by_message: dict[str, list[JournalEntry]] = collections.defaultdict(list)
    for send in sends:
        for message_id in send.ids:
            by_message[message_id].append(send.entry)
    for failure in failures:
        by_message[failure.message_id].append(failure.entry)
    for delivery in deliveries:
        by_message[delivery.message_id].append(delivery.entry)
    roles = Roles.of((entry.at_millis, entry.node, entry.kind, entry.fields) for entry in known)
    return History(
        entries=tuple(known),
        sends=tuple(sends),
        failures=tuple(failures),
        deliveries=tuple(deliveries),
        commits=tuple(commits),
        group_of={one.node: one.group for one in consumed},
        groups_of=_groups_of(consumed),
        members=_members(by_kind["node_ready"], roles),
        roles=roles,
        absences=tuple(sorted([*absences(known), *isolations(known, roles)], key=lambda absence: absence.at)),
        stopped=_stopped(every),
        closing=tuple(every[_stopping(every) :]),
        by_message={key: tuple(found) for key, found in by_message.items()},
        explaining=tuple(entry for entry in known if entry.kind not in _NOISE),
    )


def _until_stopping(entries: list[JournalEntry]) -> list[JournalEntry]:
    """Leave out nodes' ends in the stop of the cluster; messages still count."""
    stopping = _stopping(entries)
    counted = MESSAGE_KINDS - {"log_sampled"}  # nodes end one after the other: their logs do not lag
    return entries[:stopping] + [entry for entry in entries[stopping:] if entry.kind in counted]


def _stopping(entries: list[JournalEntry]) -> int:
    return next((index for index, entry in enumerate(entries) if entry.kind == "cluster_stopping"), len(entries))


def _stopped(entries: list[JournalEntry]) -> dict[str, int]:
    return {entry.node: entry.at_millis for entry in entries[_stopping(entries) :] if entry.kind == "node_stopped"}


def _groups_of(consumed: Iterable[Delivery | Commit]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for one in consumed:
        found.setdefault(one.node, set()).add(one.group)
    return {node: frozenset(groups) for node, groups in sorted(found.items())}


def _members(ready: Iterable[JournalEntry], roles: Roles) -> dict[str, Member]:
    """Return the servers, with the broker ids that they had last."""
    members = {}
    for entry in ready:
        broker_id = roles.last_ids.get(entry.node, entry.fields.get("broker_id"))
        members[entry.node] = Member(
            name=entry.node,
            address=str(entry.fields.get("address") or ""),
            broker=str(entry.fields.get("broker_name") or ""),
            broker_id=None if broker_id is None else int(broker_id),
        )
    return members


_at = operator.attrgetter("at_millis")
