"""How long it takes until a broker's absence is noticed. Metric: detection WATCHER.

From the moment a broker was told to go (or was seen gone, where nobody told it) until a nameserver, or a client by the
route that it learns, names its address no longer. These events are as many as there are faults and changes of routes,
so that they are followed here, one by one, and not by Spark.
"""

import collections
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa

from pipeline.audit.facts import Run
from pipeline.audit.findings import SECONDS, Finding, unknown

_ENDS = {"node_killed": "killed", "node_stopped": "stopped", "node_crashed": "crashed", "node_paused": "paused"}
_RETURNS = ("node_ready", "node_resumed")
_ENDING_COMMANDS = ("kill", "stop", "pause", "power-loss", "wipe")
_DROPS = ("broker_connection_lost", "broker_expired", "broker_unregistered")
_GONE = ("node_killed", "node_crashed", "node_stopped")
_KINDS = (
    "command", "broker_registered", "route_believed", "fault_applied", "fault_healed", *_ENDS, *_RETURNS, *_DROPS,
)  # fmt: skip
_NOTICED_FIRST = 5000
"""ms: so much earlier than the supervisor may others see an end that nobody ordered."""


@attrs.frozen
class Happening:
    """One event of the cluster."""

    at: int
    node: str
    kind: str
    fields: Mapping[str, Any]


@attrs.frozen
class Absence:
    """A time in which a node did not serve. `until` None: it never came back."""

    node: str
    how: str
    at: int
    until: int | None
    is_ordered: bool = True


@attrs.frozen
class Belief:
    """A watcher names an address for some time."""

    watcher: str
    address: str
    since: int
    until: int | None


def judge(run: Run) -> Iterator[Finding]:
    """Measure, and make the tables `absences` and `beliefs`."""
    happenings = read_happenings(run)
    absences = sorted(find_absences(run, happenings), key=lambda absence: absence.at)
    beliefs = list(itertools.chain(nameserver_beliefs(happenings), client_beliefs(happenings)))
    _keep(run, absences, beliefs)
    nameservers = [member.name for member in run.members.values() if member.address and not member.broker]
    for watcher in dict.fromkeys([*nameservers, *(belief.watcher for belief in beliefs)]):
        yield _judge_watcher(run, watcher, [one for one in beliefs if one.watcher == watcher], absences)


def read_happenings(run: Run) -> list[Happening]:
    """The events that tell who was away and who knew, in their order."""
    kinds = ", ".join(f"'{kind}'" for kind in _KINDS)
    rows = run.rows(f"select at, node, kind, fields from happenings where kind in ({kinds}) order by seq")
    return [Happening(row.at, row.node, row.kind, json.loads(row.fields)) for row in rows]


def find_absences(run: Run, happenings: Sequence[Happening]) -> list[Absence]:
    """Follow each node: dead, stopped, frozen, or cut off from all others."""
    found: list[Absence] = []
    away: dict[str, Absence] = {}
    ordered: dict[str, int] = {}
    isolated: dict[str, list[Absence]] = {}

    def end(node: str, at: int) -> None:
        if (absence := away.pop(node, None)) is not None:
            found.append(attrs.evolve(absence, until=at))

    for one in happenings:
        if one.kind == "command" and one.fields.get("command") in _ENDING_COMMANDS:
            ordered.setdefault(one.node, one.at)
        elif one.kind in _ENDS:
            at = ordered.pop(one.node, None)
            end(one.node, one.at if at is None else at)
            since = one.at if at is None else at
            away[one.node] = Absence(one.node, _ENDS[one.kind], since, None, at is not None)
        elif one.kind in _RETURNS:
            ordered.pop(one.node, None)
            end(one.node, one.at)
        elif one.kind == "fault_applied" and one.fields.get("fault") == "isolate":
            names = _meant(run, str(one.fields.get("target")))
            isolated[str(one.fields.get("id"))] = [Absence(name, "isolated", one.at, None) for name in names]
        elif one.kind == "fault_healed":
            healed = isolated.pop(str(one.fields.get("id")), [])
            found += [attrs.evolve(absence, until=one.at) for absence in healed]
    return [*found, *away.values(), *itertools.chain.from_iterable(isolated.values())]


def _meant(run: Run, target: str) -> list[str]:
    name, colon, role = target.partition(":")
    if not colon:
        return [name]
    members = run.members.values()
    return [one.name for one in members if one.broker == name and bool(one.broker_id) == (role == "slave")]


def nameserver_beliefs(happenings: Sequence[Happening]) -> Iterator[Belief]:
    """What nameservers hold: an address from its registration to its removal, or to their own end."""
    named: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for one in happenings:
        if one.kind == "broker_registered":
            named[one.node].setdefault(str(one.fields["address"]), one.at)
        elif one.kind in _DROPS or one.kind in _GONE:
            held = named[one.node]
            for address in [str(one.fields["address"])] if one.kind in _DROPS else list(held):
                if (since := held.pop(address, None)) is not None:
                    yield Belief(one.node, address, since, one.at)
    yield from _still(named)


def client_beliefs(happenings: Sequence[Happening]) -> Iterator[Belief]:
    """What clients hold: an address as long as any of their routes names it."""
    routes: dict[str, dict[str, set[str]]] = collections.defaultdict(dict)
    named: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for one in happenings:
        if one.kind == "route_believed":
            brokers = (one.fields.get("brokers") or {}).values()
            routes[one.node][str(one.fields["topic"])] = {address for group in brokers for address in group.values()}
        elif one.kind in _GONE:
            routes.pop(one.node, None)
        else:
            continue
        now = set[str]().union(*routes[one.node].values())
        held = named[one.node]
        for address in sorted(now - held.keys()):
            held[address] = one.at
        for address in sorted(held.keys() - now):
            yield Belief(one.node, address, held.pop(address), one.at)
    yield from _still(named)


def _still(named: Mapping[str, Mapping[str, int]]) -> Iterator[Belief]:
    for watcher, held in named.items():
        yield from (Belief(watcher, address, since, None) for address, since in held.items())


def _judge_watcher(run: Run, watcher: str, beliefs: Sequence[Belief], absences: Sequence[Absence]) -> Finding:
    metric, why_not = f"detection {watcher}", []
    noticed: list[tuple[float, bool, str]] = []
    for absence in absences:
        member = run.members.get(absence.node)
        belief = _contradicted(absence, beliefs, member.address) if member and member.broker else None
        if belief is None:
            continue
        if any(_overlap(one, absence.at, belief.until) for one in absences if one.node == watcher):
            why_not.append(f"{watcher} was away itself")
        elif belief.until is None and absence.until is None:
            noticed.append(((run.ended_at - absence.at) / 1000, True, f"{absence.node} ({absence.how}) is still named"))
        elif belief.until is None or (absence.until is not None and belief.until > absence.until):
            why_not.append(f"{absence.node} was back before {watcher} noticed that it was {absence.how}")
        else:
            seconds = max(belief.until - absence.at, 0) / 1000
            noticed.append((seconds, False, f"{absence.node} ({absence.how}) was named {seconds:.2f} s longer"))
    if not noticed:
        return unknown(metric, SECONDS, "; ".join(why_not) or f"no broker that {watcher} named was ever away")
    noticed.sort(key=lambda one: -one[0])
    longest = noticed[0]
    return Finding(
        metric=metric,
        unit=SECONDS,
        value=longest[0],
        is_at_least=longest[1],
        evidence=tuple(text for _, _, text in noticed),
    )


def _contradicted(absence: Absence, beliefs: Sequence[Belief], address: str) -> Belief | None:
    went = absence.at if absence.is_ordered else absence.at - _NOTICED_FIRST
    for belief in beliefs:
        if belief.address == address and belief.since <= absence.at and (belief.until is None or belief.until >= went):
            return belief
    return None


def _overlap(one: Absence, at: int, until: int | None) -> bool:
    latest = max(one.at, at)
    return all(end is None or latest < end for end in (one.until, until))


def _keep(run: Run, absences: Sequence[Absence], beliefs: Sequence[Belief]) -> None:
    times = {"until": pa.int64()}
    away = run.small(
        "absences", [attrs.asdict(one) for one in absences], node=pa.string(), how=pa.string(), at=pa.int64(), **times
    )
    run.table("absences", away)
    held = run.small(
        "beliefs",
        [attrs.asdict(one) for one in beliefs],
        watcher=pa.string(),
        address=pa.string(),
        since=pa.int64(),
        **times,
    )
    run.table("beliefs", held)
