"""Which consumer held a queue when, by the assignments in its journal.

A consumer records a round of assignments (`rebalanced`) when the round has ended, and pulls a queue as soon as it has
it. A delivery that is recorded before the round that adds its queue is in order.
"""

import bisect
import collections
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

import attrs

from rmqlab.cluster.checks.events import Delivery, Queue
from rmqlab.cluster.checks.history import History
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.runtime.journals.journalentry import OPENED, JournalEntry
from rmqlab.verdict.calm import CALLS_AT_ONCE, DISTURBING_KINDS, calm_spans, settled_after

Moment = tuple[int, str, int]
"""Time, node and place in its journal: they order the events of one millisecond, too."""
_CUT = "..."
"""Begin of the last item of a list that was too long for a journal."""


def moment_of(entry: JournalEntry) -> Moment:
    """Return when an entry was written."""
    return entry.at_millis, entry.node, entry.seq


def queues_of(delivery: Delivery) -> Sequence[Queue]:
    """Return the queues that a delivery may be from.

    It names the message's topic, also if the message was in the retry topic of the group.
    """
    own = delivery.queue
    return (
        [own, attrs.evolve(own, topic=RETRY_PREFIX + delivery.group)] if (delivery.reconsume_times or 0) > 0 else [own]
    )


@attrs.frozen
class _Round:
    """A round of assignments of one topic at one consumer."""

    at: Moment
    added: frozenset[str]
    removed: frozenset[str]


@attrs.frozen
class _Life:
    """A start of a consumer's process."""

    rounds: Mapping[str, Sequence[_Round]]
    """By topic. A topic with a list that was cut has none."""
    last_at: int
    is_followed: bool
    """True if the process started again: its end is not known."""

    def last_change(self, queue: Queue, at: Moment) -> _Round | None:
        """Return the last round until then that added or removed a queue."""
        name = str(queue)
        changes = (one for one in self.rounds.get(queue.topic, ()) if name in one.added or name in one.removed)
        return max(itertools.takewhile(lambda one: one.at <= at, changes), key=lambda one: one.at, default=None)

    def has_again(self, queue: Queue, change: _Round) -> bool:
        """Return True if a round added a queue that an earlier one had added."""
        rounds = self.rounds.get(queue.topic, ())
        return str(queue) in change.added and any(one.at < change.at and str(queue) in one.added for one in rounds)

    def next_round(self, queue: Queue, at: Moment) -> _Round | None:
        return next((one for one in self.rounds.get(queue.topic, ()) if one.at > at), None)


class Holders:
    """The consumers of each queue over time."""

    def __init__(self, history: History, slack: int) -> None:
        self._history = history
        self._slack = slack
        self._settled = settled_after(slack)
        self._lives: dict[str, list[tuple[Moment, _Life]]] = {}
        by_node: dict[str, list[JournalEntry]] = collections.defaultdict(list)
        for entry in (*history.entries, *history.closing):
            if entry.node in history.groups_of:
                by_node[entry.node].append(entry)
        for node, entries in by_node.items():
            self._lives[node] = list(_lives(sorted(entries, key=moment_of)))

    def why_odd(self, first: Delivery, second: Delivery) -> str:
        """Return why no rebalance explains a delivery at another consumer.

        Empty if one may explain it.
        """
        return self._why_not_held(second) or self._why_both_held(first, second)

    def was_under_way(self, first: Delivery, second: Delivery) -> bool:
        """Return True if the first delivery may be of a call from before an assignment.

        Its consumer was assigned the queue again while the call was under way, and receives the message once more.
        """
        life, at = self._life(second), moment_of(second.entry)
        return life is not None and any(
            life.has_again(queue, change)
            and change.at < moment_of(first.entry)
            and self._calls_since(change.at, first) <= CALLS_AT_ONCE
            for queue in queues_of(second)
            if (change := life.last_change(queue, at)) is not None
        )

    def _why_not_held(self, delivery: Delivery) -> str:
        """Return why a consumer cannot have had the queue of its delivery.

        Empty if it may have had it.
        """
        life, at = self._life(delivery), moment_of(delivery.entry)
        if life is None or not all(life.rounds.get(queue.topic) for queue in queues_of(delivery)):
            return ""
        if any(self._may_hold(delivery, life, queue, at) for queue in queues_of(delivery)):
            return ""
        return f"{delivery.node} received it without {delivery.queue}"

    def _why_both_held(self, first: Delivery, second: Delivery) -> str:
        """Return how long both had held a queue when the first received a message.

        Empty if that is in order.
        """
        if not any(since <= first.at <= until for since, until in self._calm):
            return ""
        found = [self._held_since(one, queue) for queue in queues_of(second) for one in (first, second)]
        since = [at for at in found if at is not None]
        if len(since) < len(found) or max(since) > first.at:
            return ""
        seconds = (first.at - max(since)) / 1000
        return f"{first.node} and {second.node} had both held {first.queue} for {seconds:.0f} s"

    def _may_hold(self, delivery: Delivery, life: _Life, queue: Queue, at: Moment) -> bool:
        change, following = life.last_change(queue, at), life.next_round(queue, at)
        if change is not None and str(queue) in change.added:
            return True
        if following is not None:
            is_added = str(queue) in following.added
        else:
            is_added = life.is_followed or life.last_at - delivery.at <= self._slack
        return is_added or (change is not None and self._calls_since(change.at, delivery) <= CALLS_AT_ONCE)

    def _calls_since(self, released: Moment, delivery: Delivery) -> int:
        """Return how many messages of the queue the consumer received since then."""
        moments = self._received[delivery.node, delivery.queue]
        return bisect.bisect_right(moments, moment_of(delivery.entry)) - bisect.bisect_right(moments, released)

    def _held_since(self, delivery: Delivery, queue: Queue) -> int | None:
        """Return since when the consumer surely had the queue of a delivery."""
        life, at = self._life(delivery), moment_of(delivery.entry)
        change = life and life.last_change(queue, at)
        if not life or not change or str(queue) not in change.added:
            return None
        following = life.next_round(queue, at)
        return None if following is not None and str(queue) in following.added else change.at[0]

    def _life(self, delivery: Delivery) -> _Life | None:
        lives = self._lives.get(delivery.node, [])
        index = bisect.bisect_right(lives, moment_of(delivery.entry), key=lambda life: life[0])
        return lives[index - 1][1] if index else None

    @functools.cached_property
    def _received(self) -> Mapping[tuple[str, Queue], list[Moment]]:
        received: dict[tuple[str, Queue], list[Moment]] = collections.defaultdict(list)
        for one in self._history.deliveries:
            received[one.node, one.queue].append(moment_of(one.entry))
        return received

    @functools.cached_property
    def _calm(self) -> Sequence[tuple[int, int]]:
        history = self._history
        before = history.of_kind(*DISTURBING_KINDS)
        every = (*before, *(one for one in history.closing if one.kind in DISTURBING_KINDS))
        events = ((one.at_millis, one.node, one.kind, one.fields) for one in every)
        return list(calm_spans(events, history.ended_at, self._settled))


def _lives(entries: Sequence[JournalEntry]) -> Iterator[tuple[Moment, _Life]]:
    """Yield begin and assignments of each start of a process that its journal names."""
    begins = [index for index, entry in enumerate(entries) if entry.kind == OPENED]
    for index, until in itertools.pairwise([*begins, len(entries)]):
        own = entries[index:until]
        life = _Life(_rounds(own), own[-1].at_millis, is_followed=until < len(entries))
        yield moment_of(entries[index]), life


def _rounds(entries: Sequence[JournalEntry]) -> Mapping[str, Sequence[_Round]]:
    rounds: dict[str, list[_Round]] = collections.defaultdict(list)
    cut: set[str] = set()
    for entry in entries:
        if entry.kind == "rebalanced":
            added, removed = (frozenset(map(str, entry.fields.get(name) or ())) for name in ("added", "removed"))
            rounds[str(entry.fields.get("topic"))].append(_Round(moment_of(entry), added, removed))
            if any(name.startswith(_CUT) for name in added | removed):
                cut.add(str(entry.fields.get("topic")))
    return {topic: found for topic, found in rounds.items() if topic not in cut}
