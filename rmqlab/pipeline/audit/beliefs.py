"""Absences of nodes, and the watchers' beliefs about brokers.

Tables: absences, beliefs; metrics: those of `detection` and `routes`. Nameservers report changes of their routes, and
clients every route that they receive. These events are as few as faults and route changes, so this process follows
them one by one, without Spark.
"""

import collections
import itertools
from collections.abc import Iterator, Mapping, Sequence

import attrs
import pyarrow as pa

from rmqlab.pipeline.audit import detection, routes
from rmqlab.pipeline.audit.run import Run
from rmqlab.pipeline.audit.watchers import Absence, Belief, ClusterEvent, Known
from rmqlab.verdict.eventmaps import route_addresses
from rmqlab.verdict.findings import Finding

_ENDS = {"node_killed": "killed", "node_stopped": "stopped", "node_crashed": "crashed", "node_paused": "paused"}
_RETURNS = ("node_ready", "node_resumed")
_ENDING_COMMANDS = ("kill", "stop", "pause", "power-loss", "wipe")
_DROPS = ("broker_connection_lost", "broker_expired", "broker_unregistered")
_GONE = ("node_killed", "node_crashed", "node_stopped")


def judge(run: Run) -> Iterator[Finding]:
    """Write the tables `absences` and `beliefs`, and yield the findings based on them."""
    known = Known(
        members=run.members,
        first_ready=first_ready(run.cluster_events),
        absences=tuple(sorted(find_absences(run), key=lambda absence: absence.at)),
        of_nameservers=tuple(nameserver_beliefs(run.cluster_events)),
        of_clients=tuple(client_beliefs(run.cluster_events)),
        ended_at=run.ended_at,
    )
    _write_tables(run, known)
    yield from detection.judge(known)
    yield from routes.judge(known)


def first_ready(events: Sequence[ClusterEvent]) -> dict[str, int]:
    """Return the time of the first `node_ready` of each node."""
    return {one.node: one.at for one in reversed(events) if one.kind == "node_ready"}


def find_absences(run: Run) -> list[Absence]:
    """Return each node's absences: dead, stopped, frozen, or isolated."""
    found: list[Absence] = []
    away: dict[str, Absence] = {}
    ordered: dict[str, int] = {}
    isolated: dict[str, list[Absence]] = {}

    def end(node: str, at: int) -> None:
        if (absence := away.pop(node, None)) is not None:
            found.append(attrs.evolve(absence, until=at))

    for one in run.cluster_events:
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
            names = run.roles.resolve_target(str(one.fields.get("target")), one.at)
            isolated[str(one.fields.get("id"))] = [Absence(name, "isolated", one.at, None) for name in names]
        elif one.kind == "fault_healed":
            healed = isolated.pop(str(one.fields.get("id")), [])
            found += [attrs.evolve(absence, until=one.at) for absence in healed]
    return [*found, *away.values(), *itertools.chain.from_iterable(isolated.values())]


def nameserver_beliefs(events: Sequence[ClusterEvent]) -> Iterator[Belief]:
    """Yield nameservers' beliefs, from a registration to its removal or their end."""
    named: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for one in events:
        if one.kind == "broker_registered":
            named[one.node].setdefault(str(one.fields["address"]), one.at)
        elif one.kind in _DROPS or one.kind in _GONE:
            held = named[one.node]
            for address in [str(one.fields["address"])] if one.kind in _DROPS else list(held):
                if (since := held.pop(address, None)) is not None:
                    yield Belief(one.node, address, since, one.at)
    yield from _open_beliefs(named)


def client_beliefs(events: Sequence[ClusterEvent]) -> Iterator[Belief]:
    """Yield clients' beliefs: an address counts while any of their routes has it."""
    routes_of: dict[str, dict[str, set[str]]] = collections.defaultdict(dict)
    named: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for one in events:
        if one.kind == "route_believed":
            routes_of[one.node][str(one.fields["topic"])] = route_addresses(one.fields.get("brokers"))
        elif one.kind in _GONE:
            routes_of.pop(one.node, None)
        else:
            continue
        now = set[str]().union(*routes_of[one.node].values())
        held = named[one.node]
        for address in sorted(now - held.keys()):
            held[address] = one.at
        for address in sorted(held.keys() - now):
            yield Belief(one.node, address, held.pop(address), one.at)
    yield from _open_beliefs(named)


def _open_beliefs(named: Mapping[str, Mapping[str, int]]) -> Iterator[Belief]:
    for watcher, held in named.items():
        yield from (Belief(watcher, address, since, None) for address, since in held.items())


def _write_tables(run: Run, known: Known) -> None:
    away = pa.schema([("node", pa.string()), ("how", pa.string()), ("at", pa.int64()), ("until", pa.int64())])
    held = pa.schema([("watcher", pa.string()), ("address", pa.string()), ("since", pa.int64()), ("until", pa.int64())])
    run.relations.keep("absences", pa.Table.from_pylist([attrs.asdict(one) for one in known.absences], schema=away))
    run.relations.keep("beliefs", pa.Table.from_pylist([attrs.asdict(one) for one in known.beliefs], schema=held))
