"""Selects events by kind and by process."""

from collections.abc import Collection, Iterable

import attrs

from rmqlab.cluster.supervisor.plan.topology import UnknownTargetError
from rmqlab.runtime.journals.journalentry import MESSAGE_KINDS, JournalEntry
from rmqlab.runtime.journals.journalfiles import SUPERVISOR
from rmqlab.runtime.text.nearmiss import near_miss


class UnknownKindError(ValueError):
    """The kind of event is unknown. The message suggests similar kinds."""


@attrs.frozen
class EventFilter:
    """Kinds and processes; empty means all."""

    kinds: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    """Names of nodes and workloads; `cluster` for events about none of them."""

    @classmethod
    def of(cls, kinds: Collection[str], nodes: Collection[str], known: Iterable[str]) -> "EventFilter":
        """Return the filter of these kinds and nodes.

        UnknownKindError; UnknownTargetError for a node that is not `known`.
        """
        for kind in kinds:
            check_kind(kind)
        names = {*known, SUPERVISOR} if nodes else set()
        for node in nodes:
            if node not in names:
                there = ", ".join(sorted(names))
                raise UnknownTargetError(f"no node {node!r}; there are: {there}{near_miss(node, names)}")
        return cls(frozenset(kinds), frozenset(nodes))

    @property
    def has_messages(self) -> bool:
        """True if a kind of single messages is wanted by its name."""
        return not self.kinds.isdisjoint(MESSAGE_KINDS)

    def wants(self, entry: JournalEntry) -> bool:
        is_kind = not self.kinds or entry.kind in self.kinds
        return is_kind and (not self.nodes or (entry.node or SUPERVISOR) in self.nodes)


def check_kind(kind: str) -> None:
    """Raise UnknownKindError for a kind that the journal's schema lacks."""
    from rmqlab.runtime.journals.schema import EVENT_TYPES  # noqa: PLC0415 -- only this needs all kinds

    if kind not in EVENT_TYPES:
        near = near_miss(kind, EVENT_TYPES)
        raise UnknownKindError(f"no kind of event {kind!r}{near}; `rmqlab events --schema` lists all")
