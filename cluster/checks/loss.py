"""Loss of acknowledged messages (RPO): outcomes of sends against stored messages.

`lost` counts acknowledged messages without a readable copy in any store, under any topic: delayed and half messages are
under system topics. A message that was sent several times counts once, as acknowledged if one of its sends is.
Messages that a broker deleted for their age are `expired`. `missing NODE` counts what this one
store lacks: they would be lost with all other stores. `unreadable` are lost messages with damaged records
(see records.py). `stored_unsent` counts stored messages of applications without a send in the journal.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import attrs

from rmqlab.cluster.checks.copies import NodeStore, Stores
from rmqlab.cluster.checks.events import Send
from rmqlab.cluster.checks.expiry import Expiry
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.possiblebrokers import possible_brokers
from rmqlab.cluster.checks.records import Damage, acknowledged_places, find_damages
from rmqlab.cluster.checks.sentmessages import SentMessage, sent_messages
from rmqlab.remoting.names import is_system_topic
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.findings import Evidence, Finding, count_of, listed, unknown, unsent_text
from rmqlab.verdict.outcomes import OUTCOMES, STORED

_SEND_OK = "SEND_OK"
_MESSAGES = "messages"


NOTHING_SENT = "no workload of the journal sent anything"


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.LOSS`."""
    yield from _count_sends(history)
    messages = sent_messages(history.sends)
    yield from _judge_loss(history, stores, [one for one in messages if one.decisive.is_acknowledged])
    for store in stores.nodes.values():
        yield _judge_missing(history, store, messages)
    for outcome in ("indeterminate", "refused"):
        yield _judge_stored(history, stores, outcome, [one for one in messages if one.decisive.outcome == outcome])


def _count_sends(history: History) -> Iterator[Finding]:
    yield Finding(metric="sent", unit=_MESSAGES, value=len(history.sends))
    sends = {outcome: [send for send in history.sends if send.outcome == outcome] for outcome in OUTCOMES}
    spans = {outcome: _span(history, outcome, found) for outcome, found in sends.items() if found}
    for outcome in OUTCOMES:
        own = (spans[outcome],) if outcome in spans else ()
        # Sends with another outcome are the reason if too few have this one.
        others = tuple(span for other, span in spans.items() if other != outcome) if outcome == _SEND_OK else ()
        yield Finding(metric=f"sent.{outcome}", unit=_MESSAGES, value=len(sends[outcome]), evidence=(*others, *own))


def _span(history: History, outcome: str, sends: Sequence[Send]) -> Evidence:
    """Return when sends of an outcome began and ended, with events around the first."""
    first, last = sends[0], sends[-1]
    count = "1 send" if len(sends) == 1 else f"{len(sends)} sends"
    return Evidence(
        text=f"{count} ended in {outcome}, the first at {first.node}",
        at_millis=first.ended_at,
        until_millis=last.ended_at,
        message_ids=first.ids,
        entries=history.around(first.ended_at, *first.ids),
    )


@attrs.frozen
class _Absent:
    """An acknowledged message that no store contains."""

    message_id: str
    send: Send
    is_expired: bool
    damages: tuple[Damage, ...] = ()
    """Its unreadable records."""


def _absent(history: History, stores: Stores, acknowledged: Iterable[SentMessage]) -> list[_Absent]:
    expiry = Expiry(history, stores)
    absent = [
        _Absent(one.message_id, one.decisive, _is_expired(one, expiry))
        for one in acknowledged
        if one.message_id not in stores.by_message
    ]
    damages = _damages_of({one.message_id for one in absent}, history, stores)
    return [attrs.evolve(one, damages=tuple(damages.get(one.message_id, ()))) for one in absent]


def _damages_of(message_ids: Collection[str], history: History, stores: Stores) -> Mapping[str, list[Damage]]:
    found: dict[str, list[Damage]] = {}
    if message_ids:
        names = acknowledged_places(history)
        for store in stores.nodes.values():
            for damage in find_damages(store, names):
                if damage.message_id in message_ids:
                    found.setdefault(damage.message_id, []).append(damage)
    return found


def _is_expired(message: SentMessage, expiry: Expiry) -> bool:
    """True if no acknowledged place of a message can have its record any more.

    One that a broker must still have is a loss, wherever else the message expired.
    """
    acknowledged = [send for send in message.sends if send.is_acknowledged]
    return all(send.place is not None and expiry.may_have(*send.place, send.began_at) for send in acknowledged)


def _judge_loss(history: History, stores: Stores, acknowledged: Sequence[SentMessage]) -> Iterator[Finding]:
    absent = _absent(history, stores, acknowledged)
    expired = [found for found in absent if found.is_expired]
    lost = [found for found in absent if not found.is_expired]
    yield _judge_absent("lost", acknowledged, lost, history, stores)
    for outcome in STORED:
        of_outcome = [one for one in acknowledged if one.decisive.outcome == outcome]
        of_these = [found for found in lost if found.send.outcome == outcome]
        yield _judge_absent(f"lost.{outcome}", of_outcome, of_these, history, stores, (outcome,))
    yield _judge_absent("unreadable", acknowledged, [found for found in lost if found.damages], history, stores)
    yield _judge_absent("expired", acknowledged, expired, history, stores)


def _judge_absent(
    metric: str,
    acknowledged: Sequence[SentMessage],
    absent: Sequence[_Absent],
    history: History,
    stores: Stores,
    outcomes: Collection[str] = STORED,
) -> Finding:
    """Count absent messages; unknown if a store that may contain them was not read."""
    found = count_of(
        metric,
        _MESSAGES,
        absent,
        lambda one: _with_damages(_as_evidence(one.message_id, one.send, history), one),
        text=_of_messages(acknowledged),
        message_ids=[one.message_id for one in absent],
        brokers_of=lambda one: possible_brokers(one.message_id, history),
    )
    missing = ""
    if not history.sends:
        missing = NOTHING_SENT
    elif nameless := sum(send.outcome in outcomes and not send.ids for send in history.sends):
        missing = f"{nameless} acknowledged sends carry no unique id"
    elif absent and not stores.nodes:
        missing = "no store was given"
    elif unread := stores.missing_of(found.brokers, history):
        missing = f"{'; '.join(unread)}; in none of the others: {len(absent)}"
        return found.without(stores.unread_brokers(history)) or found.withdrawn(missing)
    return found.withdrawn(missing) if missing else found


def _of_messages(acknowledged: Collection[object]) -> str:
    return f"of {len(acknowledged)} acknowledged messages"


def _as_evidence(message_id: str, send: Send, history: History) -> Evidence:
    where = f"{send.queue} offset {send.offset}" if send.queue else "an unknown queue"
    return Evidence(
        text=f"{send.outcome} from {where}",
        at_millis=send.ended_at,
        message_ids=(message_id,),
        entries=history.around(send.ended_at, message_id),
    )


def _with_damages(piece: Evidence, absent: _Absent) -> Evidence:
    """Add the places of a message's damaged records, ordered as the audit does."""
    where = sorted(f"{one.node}, commit log offset {one.log_offset}: {one.text}" for one in absent.damages)
    return attrs.evolve(piece, text=listed([piece.text, *where], "; "))


def _judge_missing(history: History, store: NodeStore, messages: Iterable[SentMessage]) -> Finding:
    held = {copy.message_id for copy in store.copies}
    acknowledged = [(one.message_id, own[-1]) for one in messages if (own := one.acknowledged_by(store.broker))]
    metric = f"missing {store.node}"
    if not acknowledged:
        return unknown(metric, _MESSAGES, f"no acknowledged send to {store.broker}")
    found = [(message_id, send) for message_id, send in acknowledged if message_id not in held]
    return count_of(
        metric,
        _MESSAGES,
        found,
        lambda named: _with_removals(_as_evidence(*named, history), store.node, history),
        text=_of_messages(acknowledged),
        message_ids=[message_id for message_id, _ in found],
    )


_REMOVALS_SHOWN = 3


def _with_removals(piece: Evidence, node: str, history: History) -> Evidence:
    """Add the events that removed records from a store, often long after the send."""
    after = piece.at_millis or 0
    removals = [entry for entry in history.of_node(node, *REMOVING_KINDS) if entry.at_millis >= after][:_REMOVALS_SHOWN]
    if not removals:
        return piece
    text = ", ".join(dict.fromkeys(entry.kind for entry in removals))
    return attrs.evolve(piece, text=f"{piece.text}; then {node}: {text}", entries=(*piece.entries, *removals))


def _judge_stored(history: History, stores: Stores, outcome: str, messages: Iterable[SentMessage]) -> Finding:
    """Count stored messages with an outcome other than stored."""
    metric = f"stored.{outcome}"
    sends = [send for send in history.sends if send.outcome == outcome]
    if not history.sends:
        return unknown(metric, _MESSAGES, NOTHING_SENT)
    if nameless := sum(not send.ids for send in sends):
        return unknown(metric, _MESSAGES, f"{nameless} of these sends carry no unique id")
    if sends and not stores.nodes:
        return unknown(metric, _MESSAGES, "no store was given")
    found = [(one.message_id, one.decisive) for one in messages if one.message_id in stores.by_message]

    def as_evidence(named: tuple[str, Send]) -> Evidence:
        message_id, send = named
        return Evidence(
            text=f"{outcome} for its producer, and stored: {_places(stores, message_id)}",
            at_millis=send.ended_at,
            message_ids=(message_id,),
            entries=history.around(send.ended_at, message_id),
        )

    return count_of(
        metric,
        _MESSAGES,
        found,
        as_evidence,
        text=f"of {len(sends)} such sends",
        is_at_least=bool(stores.unread),
        message_ids=[key for key, _ in found],
        brokers_of=lambda named: stores.brokers_of(named[0], history),
    )


def _places(stores: Stores, message_id: str) -> str:
    return listed(
        f"{queue} offset {offset} at {'+'.join(copy.node for copy in copies)}"
        for (queue, offset), copies in stores.places_in_order(message_id).items()
    )


def judge_stored_unsent(history: History, stores: Stores, sent_until: int | None) -> Finding:
    """Count messages that no send names.

    Those stored after `sent_until` do not count: a producer still runs, and their sends may not be recorded yet.
    """
    if not stores.nodes:
        return unknown("stored_unsent", _MESSAGES, "no store was given")
    topics = {send.topic for send in history.sends}
    sent = {key for send in history.sends for key in send.ids} | {failure.message_id for failure in history.failures}
    unsent = {
        copy.message_id: copy
        for store in stores.nodes.values()
        for copy in store.copies
        if (copy.queue.topic in topics or not is_system_topic(copy.queue.topic))
        and copy.message_id not in sent
        and copy.stored_at >= history.began_at
        and (sent_until is None or copy.stored_at <= sent_until)
    }
    return count_of(
        "stored_unsent",
        _MESSAGES,
        list(unsent.values()),
        lambda copy: copy.as_evidence(_unsent_text(stores, copy.message_id)),
        message_ids=unsent,
        brokers_of=lambda copy: stores.brokers_of(copy.message_id, history),
    )


def _unsent_text(stores: Stores, message_id: str) -> str:
    places = [f"{queue} offset {offset}" for queue, offset in stores.places(message_id)]
    return unsent_text(places, [copy.node for copy in stores.by_message[message_id]])
