"""The roles of brokers over time, for both judges. Pure.

A broker's event `node_ready` has its broker id: 0 for a master. `promote` and `demote` change the id between an end and
the next start (issue 16), so a broker name can have several masters one after the other, or at once.

Times are milliseconds of the cluster's clock. The first role of a node counts from the beginning of the run; `until` is
None for its last one.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

MASTER_ID = 0
CONTESTED = "two masters of this broker name ran at once: either can have served its clients"
"""Reason why metrics that depend on the serving master are unknown."""
_BEGINS = frozenset({"node_ready", "member_role_changed"})
"""In a DLedger group, roles change while the members run. Of two simultaneous leaders, only one can store messages."""
_ENDS = frozenset({"node_killed", "node_crashed", "node_stopped"})
ROLE_KINDS = _BEGINS | _ENDS
"""Kinds of the events that `Roles.of` needs."""


@attrs.frozen
class RoleSpan:
    """An interval in which a broker had one name and broker id.

    It ends when the next one begins.
    """

    node: str
    broker: str
    broker_id: int
    at: int
    until: int | None = None

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID

    def covers(self, at: int) -> bool:
        return self.at <= at and (self.until is None or at < self.until)


@attrs.frozen
class Pair:
    """An interval in which a node was a slave, with its master."""

    slave: str
    master: str
    at: int
    until: int | None = None


@attrs.frozen
class Roles:
    """All roles of a run."""

    spans: tuple[RoleSpan, ...]
    """By node, then by time."""
    contested: frozenset[str]
    """Broker names of which two masters ran at once: requests to broker id 0 can have reached either."""
    names: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """Broker names of each broker over time, also of one whose broker id is unknown."""

    @property
    def renamed(self) -> frozenset[str]:
        """Return the broker names of nodes that had several of them.

        The name under which such a node stored a record is unknown.
        """
        return frozenset(itertools.chain.from_iterable(one for one in self.names.values() if len(one) > 1))

    @property
    def all_names(self) -> frozenset[str]:
        """Return all broker names, of all times."""
        return frozenset(itertools.chain.from_iterable(self.names.values()))

    def names_of(self, node: str) -> frozenset[str]:
        """Return the broker names that a node had; its own name if it never became ready."""
        return self.names.get(node, frozenset({node}))

    @classmethod
    def of(cls, events: Iterable[tuple[int, str, str, Mapping[str, Any]]]) -> "Roles":
        """Read events as (time, node, kind, fields), in order per node."""
        known = [event for event in events if event[2] in ROLE_KINDS]
        spans: dict[str, list[RoleSpan]] = {}
        running: dict[str, RoleSpan] = {}
        contested: set[str] = set()
        for at, node, kind, fields in known:
            if kind in _ENDS:
                running.pop(node, None)
            elif (span := _span(at, node, fields)) is not None:
                running[node] = span
                if (
                    kind == "node_ready"
                    and sum(other.broker == span.broker and other.is_master for other in running.values()) > 1
                ):
                    contested.add(span.broker)
                _append(spans.setdefault(node, []), span)
        return cls(tuple(itertools.chain.from_iterable(spans.values())), frozenset(contested), _names(known))

    @functools.cached_property
    def last_ids(self) -> Mapping[str, int]:
        """Return the broker ids at the end of the run, by node."""
        return {span.node: span.broker_id for span in self.spans}

    @property
    def last_masters(self) -> set[str]:
        """Return the nodes that were masters at the end of the run, or at their own end."""
        return {node for node, broker_id in self.last_ids.items() if broker_id == MASTER_ID}

    def id_at(self, node: str, at: int) -> int | None:
        """Return a broker's id at a time; None for other nodes."""
        return next((span.broker_id for span in self.spans if span.node == node and span.covers(at)), None)

    def master_at(self, broker: str, at: int) -> str | None:
        """Return the master of a broker name at a time, the last promoted of several."""
        masters = [span for span in self._of(broker) if span.is_master and span.covers(at)]
        return max(masters, key=lambda span: span.at).node if masters else None

    def masters_over_time(self, broker: str) -> list[tuple[str, int, int | None]]:
        """Return the acting masters of a broker name: node, begin, and end of the time."""
        changes = sorted({0, *(span.at for span in self._of(broker))})
        acting = [(at, self.master_at(broker, at)) for at in changes]
        spans = []
        for node, group in itertools.groupby(acting, key=lambda each: each[1]):
            at = next(group)[0]
            until = next((later for later, other in acting if later > at and other != node), None)
            if node is not None:
                spans.append((node, at, until))
        return spans

    def resolve_target(self, target: str, at: int) -> list[str]:
        """Return the nodes of a target such as `broker-a-s` or `broker-a:slave` at a time.

        Commas or spaces separate several targets.
        """
        names = (name for word in target.replace(",", " ").split() for name in self._nodes_of(word, at))
        return list(dict.fromkeys(names))

    def _nodes_of(self, word: str, at: int) -> list[str]:
        broker, colon, role = word.partition(":")
        if not colon:
            return [word]
        members = [span for span in self._of(broker) if span.covers(at)]
        return [span.node for span in members if role == "*" or span.is_master == (role == "master")]

    @functools.cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Slaves with their masters, over time."""
        return tuple(itertools.chain.from_iterable(map(self._pairs, self.brokers)))

    @property
    def masters_of_slaves(self) -> Mapping[str, list[str]]:
        """Return the masters that each slave had."""
        found: dict[str, list[str]] = {}
        for pair in self.pairs:
            found.setdefault(pair.slave, []).append(pair.master)
        return found

    @functools.cached_property
    def followers(self) -> Mapping[str, str]:
        """Return the master by node at the end of the run.

        Nodes are the slaves of the master, and the masters before it.
        """
        found: dict[str, str] = {}
        for broker in self.brokers:
            last = [span for span in self._of(broker) if span.until is None]
            master = max((span for span in last if span.is_master), key=lambda span: span.at, default=None)
            if master is not None:
                found |= {span.node: master.node for span in last if span.node != master.node}
        return found

    @property
    def brokers(self) -> list[str]:
        """All broker names."""
        return list(dict.fromkeys(span.broker for span in self.spans))

    def slaves_at(self, broker: str, at: int) -> list[str]:
        """Return the slaves of a broker name at a time."""
        return [span.node for span in self._of(broker) if not span.is_master and span.covers(at)]

    def slaves_over_time(self, broker: str) -> list[tuple[int, list[str]]]:
        """Return the slaves of a broker name at each begin of a role, in order of time."""
        changes = sorted({0, *(span.at for span in self._of(broker))})
        return [(at, self.slaves_at(broker, at)) for at in changes]

    def _of(self, broker: str) -> list[RoleSpan]:
        return [span for span in self.spans if span.broker == broker]

    def _pairs(self, broker: str) -> Iterator[Pair]:
        spans = self._of(broker)
        changes = sorted({span.at for span in spans})
        open_pairs: dict[str, Pair] = {}
        for at in changes:
            master = self.master_at(broker, at)
            now = {} if master is None else dict.fromkeys(self.slaves_at(broker, at), master)
            for pair in [pair for pair in open_pairs.values() if now.get(pair.slave) != pair.master]:
                yield attrs.evolve(open_pairs.pop(pair.slave), until=at)
            for slave, its_master in now.items():
                open_pairs.setdefault(slave, Pair(slave, its_master, at))
        yield from open_pairs.values()


def _broker_name(fields: Mapping[str, Any]) -> str:
    return str(fields.get("broker_name") or "")


def _names(events: Iterable[tuple[int, str, str, Mapping[str, Any]]]) -> dict[str, frozenset[str]]:
    names: dict[str, frozenset[str]] = {}
    for _, node, kind, fields in events:
        if kind in _BEGINS and (name := _broker_name(fields)):
            names[node] = names.get(node, frozenset()) | {name}
    return names


def _span(at: int, node: str, fields: Mapping[str, Any]) -> RoleSpan | None:
    """Return the role of a node that is ready; None unless it is a broker."""
    broker, broker_id = _broker_name(fields), fields.get("broker_id")
    return RoleSpan(node, broker, broker_id, at) if broker and isinstance(broker_id, int) else None


def _append(spans: list[RoleSpan], span: RoleSpan) -> None:
    if not spans:
        spans.append(attrs.evolve(span, at=0))
    elif (spans[-1].broker, spans[-1].broker_id) != (span.broker, span.broker_id):
        spans[-1] = attrs.evolve(spans[-1], until=span.at)
        spans.append(span)
