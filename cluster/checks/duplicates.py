"""Duplicates by cause: messages stored twice, or received twice by a group.

`stored_twice` counts messages at more than one place (broker name, queue, queue offset) of the topic they were sent to:
a client retried a send whose first attempt had been stored. `duplicates` counts deliveries of a message to a group
beyond the first, each under one cause, tried in this order:
  - `redelivery`: the consumer had handed it back: its reconsume times are above 0, and new at its place.
  - `client_retry`: its place differs from the previous one, so it is stored twice.
  - `offset_rollback`: from the same place, after an offset beyond it had moved back (by a commit, a slave's metadata
    sync or a correction of the consumer), after a request reset the group's offsets, or to a consumer that took over
    the queue after a commit beyond it.
  - `rebalance`: from the same place, by another consumer, or by one that had taken over the queue again. But not by
    one that did not have the queue, and not while both had it without a cause (holders.py).
  - `unexplained`: no cause is known: a consumer that keeps its queue pulls no offset twice. Also an entry that a
    journal has twice.

Broadcasting groups deliver every message to each consumer: they must not be judged by these metrics.
"""

import bisect
import collections
import operator
from collections.abc import Iterator

import attrs

from rmqlab.cluster.checks.copies import Copy, Stores
from rmqlab.cluster.checks.events import Delivery, Queue, Send
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.holders import Holders, Moment, moment_of, queues_of
from rmqlab.cluster.checks.rollbackevents import Rollback, find_rollbacks
from rmqlab.cluster.checks.sentmessages import sent_messages
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.catalogue import DUPLICATES
from rmqlab.verdict.causes import DUPLICATE_CAUSES, RESET_MILLIS
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.findings import Evidence, Finding, count_of, listed, unknown, without_id

_DELIVERIES = "deliveries"


def judge(history: History, stores: Stores, conditions: Conditions) -> Iterator[Finding]:
    """Yield the findings of `catalogue.DUPLICATES`."""
    yield _judge_stored_twice(history, stores)
    if not history.deliveries:
        for row in DUPLICATES[1:]:
            yield unknown(row.name, row.unit, "nothing was delivered to a workload of the journal")
        return
    repeats = list(find_repeats(history, conditions.slack))
    nameless = sum(not delivery.message_id for delivery in history.deliveries)
    for cause in ("", *DUPLICATE_CAUSES):
        found = [repeat for repeat in repeats if cause in ("", repeat.cause)]
        finding = count_of(
            f"duplicates.{cause}" if cause else "duplicates",
            _DELIVERIES,
            found,
            lambda repeat: _evidence(repeat, history),
            text=f"of {len(history.deliveries)} deliveries",
            message_ids=[repeat.delivery.message_id for repeat in found],
            brokers_of=(lambda repeat: frozenset({repeat.delivery.queue.broker})) if cause else None,
        )
        yield finding.as_floor(without_id(nameless)) if nameless else finding


def _judge_stored_twice(history: History, stores: Stores) -> Finding:
    if not history.sends:
        return unknown("stored_twice", "messages", "no workload of the journal sent anything")
    if not stores.nodes:
        return unknown("stored_twice", "messages", "no store was given")
    if nameless := [node for node in stores.nodes if node not in history.members]:
        return unknown("stored_twice", "messages", f"no event has the broker name of {', '.join(nameless)}")
    found = [
        (one.message_id, one.decisive)
        for one in sent_messages(history.sends)
        if len(_places(stores, one.message_id, one.decisive.topic)) > 1
    ]

    def as_evidence(named: tuple[str, Send]) -> Evidence:
        message_id, send = named
        places = _places(stores, message_id, send.topic)
        times = [copy.stored_at for copies in places.values() for copy in copies]
        where = listed(
            f"{queue} offset {offset}"
            for queue, offset in stores.places_in_order(message_id)
            if (queue, offset) in places
        )
        return Evidence(
            text=f"{send.outcome} for its producer, and stored {len(places)} times: {where}",
            at_millis=min(times),
            until_millis=max(times),
            message_ids=(message_id,),
            entries=history.around(send.ended_at, message_id),
        )

    return count_of(
        "stored_twice",
        "messages",
        found,
        as_evidence,
        is_at_least=bool(stores.unread),
        message_ids=[message_id for message_id, _ in found],
        brokers_of=lambda named: stores.brokers_of(named[0], history),
    )


def _places(stores: Stores, message_id: str, topic: str) -> dict[tuple[Queue, int], list[Copy]]:
    """Return the message's places in the topic of its send.

    Half, delayed, retried and dead messages are also stored under other topics.
    """
    return {place: copies for place, copies in stores.places(message_id).items() if place[0].topic == topic}


@attrs.frozen
class Repeat:
    """A delivery beyond the first, with its cause."""

    cause: str
    why: str
    delivery: Delivery
    before: Delivery
    """The latest earlier delivery of the message to the group."""


def find_repeats(history: History, slack: int) -> Iterator[Repeat]:
    """Yield every repeated delivery of a message with an id, by time.

    `slack` are the milliseconds after which nothing is late any more.
    """
    seen: dict[tuple[str, str], list[Delivery]] = collections.defaultdict(list)
    causes = _Causes(history, Holders(history, slack))
    for delivery in filter(operator.attrgetter("message_id"), history.deliveries):
        earlier = seen[delivery.group, delivery.message_id]
        if earlier:
            cause, why = causes.of(delivery, earlier)
            yield Repeat(cause, why, delivery, earlier[-1])
        earlier.append(delivery)


_NEVER: Moment = (-1, "", 0)


class _Causes:
    """Events that explain repeats: commits, moved offsets, assigned queues."""

    def __init__(self, history: History, holders: Holders) -> None:
        self._holders = holders
        self._rollbacks: dict[tuple[str, Queue], list[Rollback]] = collections.defaultdict(list)
        for rollback in find_rollbacks(history):
            self._rollbacks[rollback.group, rollback.queue].append(rollback)
        self._commits: dict[tuple[str, Queue], list[tuple[int, int]]] = collections.defaultdict(list)
        for commit in history.commits:  # with each, the highest offset committed up to then
            known = self._commits[commit.group, commit.queue]
            known.append((commit.at, max(commit.offset, known[-1][1] if known else 0)))
        self._assignments: dict[tuple[str, str], list[Moment]] = collections.defaultdict(list)
        self._resets = [
            (entry.at_millis, str(entry.fields.get("group")), str(entry.fields.get("topic")))
            for entry in history.of_kind("offset_reset")
        ]
        while_stopping = (entry for entry in history.closing if entry.kind == "rebalanced")
        for entry in (*history.of_kind("rebalanced"), *while_stopping):
            for queue in entry.fields.get("added") or ():
                self._assignments[entry.node, str(queue)].append(moment_of(entry))

    def of(self, delivery: Delivery, earlier: list[Delivery]) -> tuple[str, str]:
        """Return the cause of a repeated delivery, and the reason for it."""
        times = delivery.reconsume_times or 0
        same = [before for before in earlier if (before.queue, before.offset) == (delivery.queue, delivery.offset)]
        if times > 0:  # a redelivery that comes again needs a cause as any other delivery
            same = [before for before in same if before.reconsume_times == times]
            if not same:
                return "redelivery", f"reconsume times {times}"
        if not same:
            first = earlier[0]
            return "client_retry", f"it was delivered from {first.queue} offset {first.offset} before"
        return self._same_place(delivery, same[-1])

    def _same_place(self, delivery: Delivery, before: Delivery) -> tuple[str, str]:
        """Return the cause of a delivery from the same place, and the reason for it."""
        queues, is_other = queues_of(delivery), before.node != delivery.node
        for queue in queues:
            if why := self._moved_back(delivery, before, queue):
                return "offset_rollback", why
        if is_other and (why := self._holders.why_odd(before, delivery)):
            return "unexplained", why
        for queue in queues:
            if why := self._committed_beyond(delivery, before, queue):
                return "offset_rollback", why
        if is_other:
            return "rebalance", f"{before.node} received it before, and no commit was beyond it"
        if self._assigned_at(delivery) > moment_of(before.entry):
            return "rebalance", f"{delivery.node} was assigned {delivery.queue} again"
        if self._holders.was_under_way(before, delivery):
            return "rebalance", f"{delivery.node} was assigned {delivery.queue} again while calls were under way"
        if _is_same_entry(delivery.entry, before.entry):
            return "unexplained", "the journal has this entry twice"
        return "unexplained", f"{delivery.node} received it before, and kept {delivery.queue}"

    def _moved_back(self, delivery: Delivery, before: Delivery, queue: Queue) -> str:
        """Return what moved the group's offset back over a delivery; empty if nothing did."""
        for rollback in self._rollbacks[delivery.group, queue]:
            if before.at <= rollback.at <= delivery.at and rollback.after <= delivery.offset < rollback.before:
                return f"{rollback.text} from {rollback.before} to {rollback.after}"
        reset, since = (delivery.group, queue.topic), min(before.at, delivery.at - RESET_MILLIS)
        if any(since <= at <= delivery.at and reset == (group, topic) for at, group, topic in self._resets):
            return "a request reset the offsets of the group"
        return ""

    def _committed_beyond(self, delivery: Delivery, before: Delivery, queue: Queue) -> str:
        """Return the offset beyond a delivery that a new owner of the queue must find.

        Empty if there is none.
        A new owner queries the group's offset once: a later commit of the previous owner has no effect on it.
        """
        asked = self._assigned_at(delivery)
        is_taken = asked > moment_of(before.entry)
        if before.node == delivery.node and not is_taken:
            return ""
        known = self._commits[delivery.group, queue]
        index = bisect.bisect_right(known, asked[0] if is_taken else delivery.at, key=lambda commit: commit[0])
        if index and known[index - 1][1] > delivery.offset:
            return f"offset {known[index - 1][1]} had been committed"
        return ""

    def _assigned_at(self, delivery: Delivery) -> Moment:
        """Return when the queue was last assigned to the consumer of a delivery.

        `_NEVER` if the journal does not contain it.
        """
        at, found = moment_of(delivery.entry), _NEVER
        for queue in queues_of(delivery):
            moments = self._assignments[delivery.node, str(queue)]
            index = bisect.bisect_right(moments, at)
            found = max(found, moments[index - 1] if index else _NEVER)
        return found


def _is_same_entry(one: JournalEntry, other: JournalEntry) -> bool:
    return (one.at_millis, one.node, one.kind, one.fields) == (other.at_millis, other.node, other.kind, other.fields)


def _evidence(repeat: Repeat, history: History) -> Evidence:
    delivery, before = repeat.delivery, repeat.before
    return Evidence(
        text=f"{delivery.group} got {delivery.queue} offset {delivery.offset} again ({repeat.cause}): {repeat.why}",
        at_millis=before.at,
        until_millis=delivery.at,
        message_ids=(delivery.message_id,),
        entries=history.around(delivery.at, delivery.message_id),
    )
