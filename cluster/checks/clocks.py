"""Clocks that disagree: events that a journal or a store dates before their cause.

All processes of a cluster share one clock. An event dated before its cause shows a clock that is off, an altered
journal, or a `clock` fault. `clock_disagreement NODE` is the largest difference that one of these proves:
  - a delivery dated before the begin of its send, or before the broker stored the message;
  - a message stored before the begin of its send, or after the acknowledgement of the send that it belongs to;
  - an event that a node dated before the supervisor started the cluster, or after the node's end.
A broker that lost records may store a message again at the same place, such as a delayed one that is delivered twice: a
time before the loss is not compared with a store time after it. If single records of a log have other store times than
those around them, these records are altered, and not the clock: `store_time_disagreement` has them.

Of two nodes that disagree, the one whose clock a fault set wrong is reported, else the one that disagrees with more
nodes; if equal, the one that is not a broker.
"""

import collections
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import attrs

from rmqlab.cluster.checks.copies import Copy, Stores
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.wrongrecords import count_wrong
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.verdict.catalogue import STORE_TIME_DISAGREEMENT
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.clocksteps import faulted_clocks
from rmqlab.verdict.conditions import CLOCK
from rmqlab.verdict.findings import Evidence, Finding, unknown
from rmqlab.verdict.storetimes import why_unknown

TOLERANCE = 1000
"""Milliseconds. Clocks of one machine differ by far less, even at a high rate."""
_SUPERVISOR = ""
_OWN_SOURCES = ("workload", "broker", "nameserver", "nameserver or broker")
_ENDS = ("node_killed", "node_stopped", "node_crashed")


@attrs.frozen
class Bound:
    """The clock of `behind` is at least `millis` behind that of `ahead`.

    A contradiction only if positive.
    """

    behind: str
    ahead: str
    millis: int
    text: str
    at: int
    message_id: str = ""
    is_of_record: bool = False
    """True if one of the two times is the store time of a record."""


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield `catalogue.CLOCKS` findings for each node comparable with another.

    Also that of `catalogue.STORE_TIME_DISAGREEMENT`.
    """
    contradicted: set[str] = set()
    worst = _worst(_noting(_bounds(history, stores), contradicted))
    misdated: list[Copy] = []
    if contradicted and not _is_faulted(history):
        suspects = (copy for store in stores.nodes.values() for copy in find_misdated(store.copies))
        misdated = [copy for copy in suspects if copy.message_id in contradicted]
        if misdated:
            worst = _worst(_bounds(history, stores, {(copy.queue, copy.offset) for copy in misdated}))
    yield _judge_store_times(history, stores, misdated)
    wrong = [bound for bound in worst.values() if bound.millis > TOLERANCE]
    brokers = {member.name for member in history.members.values() if member.is_broker}
    faults = ((entry.at_millis, entry.fields) for entry in history.of_kind("fault_applied"))
    named = _blame(wrong, brokers, faulted_clocks(faults, history.roles))
    for node in sorted({node for pair in worst for node in pair} - {_SUPERVISOR}):
        found = sorted(named.get(node, ()), key=lambda bound: -bound.millis)
        yield Finding(
            metric=f"clock_disagreement {node}",
            unit="s",
            value=found[0].millis / 1000 if found else 0.0,
            is_at_least=bool(found),
            message_ids=tuple(bound.message_id for bound in found if bound.message_id),
            evidence=tuple(_evidence(bound, history) for bound in found),
        )


def _worst(bounds: Iterable[Bound]) -> Mapping[tuple[str, str], Bound]:
    worst: dict[tuple[str, str], Bound] = {}
    for bound in bounds:
        pair = (bound.behind, bound.ahead)
        if pair not in worst or worst[pair].millis < bound.millis:
            worst[pair] = bound
    return worst


def _noting(bounds: Iterable[Bound], contradicted: set[str]) -> Iterator[Bound]:
    """Yield the bounds; add the messages whose store time contradicts a journal."""
    for bound in bounds:
        if bound.is_of_record and bound.millis > TOLERANCE:
            contradicted.add(bound.message_id)
        yield bound


def _is_faulted(history: History) -> bool:
    return any(entry.fields.get("fault") == CLOCK for entry in history.of_kind("fault_applied"))


def find_misdated(copies: Sequence[Copy]) -> Iterator[Copy]:
    """Yield the records of a log with another store time than those around it.

    The two ahead of it and the two behind it must be in order: which one is wrong is not certain otherwise.
    """
    times = [copies[0].stored_at, *(copy.stored_at for copy in copies), copies[-1].stored_at] if copies else []
    for copy, earliest, before, at, after, latest in zip(copies[1:], *(times[n:] for n in range(5)), strict=False):
        is_between = before - TOLERANCE <= at <= after + TOLERANCE
        if not is_between and earliest <= before <= after <= latest:
            yield copy


def _judge_store_times(history: History, stores: Stores, misdated: Iterable[Copy]) -> Finding:
    metric, unit = STORE_TIME_DISAGREEMENT.name, STORE_TIME_DISAGREEMENT.unit
    has_messages = bool(history.sends or history.deliveries)
    if why := why_unknown(
        has_messages=has_messages, has_stores=bool(stores.nodes), has_clock_faults=_is_faulted(history)
    ):
        return unknown(metric, unit, why)
    found: dict[str, list[tuple[Copy, str]]] = collections.defaultdict(list)
    for copy in misdated:
        found[copy.message_id].append((copy, ""))
    what = "its store time is not between those of the records around it"
    return count_wrong(STORE_TIME_DISAGREEMENT, what, found, history, stores)


def _blame(wrong: Iterable[Bound], brokers: Collection[str], faulted: Collection[str]) -> Mapping[str, list[Bound]]:
    """Assign each contradiction to one of its two nodes."""
    left, named = list(wrong), dict[str, list[Bound]]()
    while left:
        partners: dict[str, set[str]] = collections.defaultdict(set)
        for bound in left:
            partners[bound.behind].add(bound.ahead)
            partners[bound.ahead].add(bound.behind)
        partners.pop(_SUPERVISOR, None)
        node = min(partners, key=lambda name: (name not in faulted, -len(partners[name]), name in brokers, name))
        named[node] = [bound for bound in left if node in (bound.behind, bound.ahead)]
        left = [bound for bound in left if node not in (bound.behind, bound.ahead)]
    return named


def _bounds(history: History, stores: Stores, misdated: Collection[tuple[Queue, int]] = ()) -> Iterator[Bound]:
    """Yield all bounds. Records at the places of `misdated` show nothing of a clock."""
    losses = _losses(history)
    yield from _of_sends(history, stores, losses, misdated)
    yield from _of_deliveries(history, stores, losses, misdated)
    yield from _of_starts(history)
    yield from _of_ends(history)


def _of_sends(
    history: History, stores: Stores, losses: Mapping[str, list[int]], misdated: Collection[tuple[Queue, int]]
) -> Iterator[Bound]:
    for send in history.sends:
        for message_id in send.ids:
            copies = list(_with_masters(history, stores, message_id, misdated))
            first = min((copy.stored_at for copy, _ in copies), default=0)
            for copy, node in copies:
                at = copy.stored_at
                text = f"{node} stored a message before its send began at {send.node}"
                yield Bound(node, send.node, send.began_at - at, text, at, message_id, is_of_record=True)
                # Delayed and retried messages are stored again later.
                is_this = (copy.queue, copy.offset) == send.place and at == first
                if send.is_acknowledged and is_this and not _is_again(copy, send.ended_at, losses):
                    text = f"{send.node} had its send acknowledged before {node} stored the message"
                    yield Bound(send.node, node, at - send.ended_at, text, at, message_id, is_of_record=True)


def _with_masters(
    history: History, stores: Stores, message_id: str, misdated: Collection[tuple[Queue, int]]
) -> Iterator[tuple[Copy, str]]:
    """Yield a message's copies, each with the master whose clock set its store time.

    Logs that disagree about the time of one place are altered, and show nothing of a clock.
    """
    agreed = (
        copies
        for place, copies in stores.places(message_id).items()
        if len({one.stored_at for one in copies}) == 1 and place not in misdated
    )
    for copy in itertools.chain.from_iterable(agreed):
        if (master := history.roles.master_at(copy.queue.broker, copy.stored_at)) is not None:
            yield copy, master


def _of_deliveries(
    history: History, stores: Stores, losses: Mapping[str, list[int]], misdated: Collection[tuple[Queue, int]]
) -> Iterator[Bound]:
    senders = {message_id: send for send in history.sends for message_id in send.ids}
    for delivery in history.deliveries:
        node, at, message_id = delivery.node, delivery.at, delivery.message_id
        if (send := senders.get(message_id)) is not None:
            text = f"{node} got a message before its send began at {send.node}"
            yield Bound(node, send.node, send.began_at - at, text, at, message_id)
        for copy, master in _with_masters(history, stores, message_id, misdated):
            is_this = (copy.queue, copy.offset) == (delivery.queue, delivery.offset)
            if is_this and not _is_again(copy, at, losses):
                text = f"{node} got a message before {master} stored it"
                yield Bound(node, master, copy.stored_at - at, text, at, message_id, is_of_record=True)


def _losses(history: History) -> Mapping[str, list[int]]:
    """Return the times at which members of a broker name lost records, by name."""
    losses = collections.defaultdict[str, list[int]](list)
    for entry in history.of_kind(*REMOVING_KINDS):
        if (member := history.members.get(entry.node)) is not None:
            losses[member.broker].append(entry.at_millis)
    return losses


def _is_again(copy: Copy, at: int, losses: Mapping[str, list[int]]) -> bool:
    """True if the record of this time may be lost, and the copy another."""
    return at < copy.stored_at and any(at <= lost <= copy.stored_at for lost in losses.get(copy.queue.broker, ()))


def _of_ends(history: History) -> Iterator[Bound]:
    """Yield bounds from the last event of each node that ended and did not restart."""
    ended: dict[str, int] = {}
    last: dict[str, int] = {}
    for entry in (*history.entries, *history.closing):  # `closing` repeats some of the last entries
        if entry.kind in _ENDS:
            ended[entry.node] = entry.at_millis
        elif entry.kind in ("node_spawned", "node_ready"):
            ended.pop(entry.node, None)
        elif _is_own(entry):
            last[entry.node] = max(entry.at_millis, last.get(entry.node, 0))
    for node in ended.keys() & last.keys():
        text = f"{node} wrote an event after its end"
        yield Bound(_SUPERVISOR, node, last[node] - ended[node], text, ended[node])


def _of_starts(history: History) -> Iterator[Bound]:
    """Yield bounds from the first event of each node and the start of the cluster."""
    starting = next(history.of_kind("cluster_starting"), None)
    if starting is None:
        return
    first: dict[str, int] = {}
    for entry in history.entries:
        if _is_own(entry):
            first.setdefault(entry.node, entry.at_millis)
    for node, at in first.items():
        text = f"{node} wrote an event before the cluster started"
        yield Bound(node, _SUPERVISOR, starting.at_millis - at, text, at)


def _is_own(entry: JournalEntry) -> bool:
    """True for an event that the node itself emitted, rather than the supervisor."""
    kind = EVENT_TYPES.get(entry.kind)
    return kind is not None and kind.source in _OWN_SOURCES


def _evidence(bound: Bound, history: History) -> Evidence:
    return Evidence(
        text=f"{bound.text}, by {bound.millis / 1000:.2f} s",
        at_millis=bound.at,
        message_ids=(bound.message_id,) if bound.message_id else (),
        entries=history.around(bound.at, *([bound.message_id] if bound.message_id else [])),
    )
