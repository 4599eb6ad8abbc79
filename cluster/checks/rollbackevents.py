"""Consumer offsets that moved back, from all events that show it. Pure.

A broker accepts any offset (broker-requests#44), and a slave copies its master's, older or newer (store-and-ha section
5.3): neither checks the direction.
"""

import collections
from collections.abc import Iterable, Iterator

import attrs

from rmqlab.cluster.checks.deletions import AfterDeletions
from rmqlab.cluster.checks.events import Commit, Queue
from rmqlab.cluster.checks.history import History
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.eventmaps import moved_offsets, queue_id_of


@attrs.frozen
class Rollback:
    """One group's offset in one queue moved back, at one place."""

    group: str
    queue: Queue
    before: int
    after: int
    at: int
    node: str
    """The broker with the offset, or the consumer that continued from an older one."""
    text: str
    entry: JournalEntry

    @property
    def distance(self) -> int:
        """The number of messages."""
        return self.before - self.after


def find_rollbacks(history: History) -> list[Rollback]:
    """Return all rollbacks, by time, each event once.

    Offsets stay when a topic is deleted, and its queues begin at 0 again: there, a rollback counts only from an offset
    that was committed in the new queue.

    A consumer commits its correction, and the broker reports that commit; a broker also reports any other commit that
    moves back. Each report accounts for one event: two rollbacks to the same offset count twice.
    """
    committed: dict[tuple[str, Queue, int], int] = {}
    if history.deleted_topics:
        for commit in AfterDeletions.of(history).commits():
            committed.setdefault((commit.group, commit.queue, commit.offset), commit.at)

    def is_judged(rollback: Rollback) -> bool:
        at = committed.get((rollback.group, rollback.queue, rollback.before))
        return not history.is_deleted(rollback.queue) or (at is not None and at <= rollback.at)

    return [rollback for rollback in _every_rollback(history) if is_judged(rollback)]


def _every_rollback(history: History) -> list[Rollback]:
    corrected = list(_corrected(history))
    rollbacks = [*corrected, *_overwritten(history), *_unreported(_commits_seen_by_brokers(history), corrected)]
    return sorted(
        [*rollbacks, *_unreported(_commits_going_back(history.commits), rollbacks)], key=lambda rollback: rollback.at
    )


def _unreported(rollbacks: Iterable[Rollback], reported: Iterable[Rollback]) -> Iterator[Rollback]:
    """Yield rollbacks without a report of the same group, queue and new offset.

    A report matches the first such rollback.
    """
    left = collections.Counter((rollback.group, rollback.queue, rollback.after) for rollback in reported)
    for rollback in rollbacks:
        key = (rollback.group, rollback.queue, rollback.after)
        if left[key] > 0:
            left[key] -= 1
        else:
            yield rollback


def _commits_seen_by_brokers(history: History) -> Iterator[Rollback]:
    for entry in history.of_kind("offset_moved_back"):
        fields = entry.fields
        queue = Queue(str(fields["topic"]), history.broker_of(entry.node), int(fields["queue_id"]))
        text = f"a commit to {entry.node} moved it"
        yield Rollback(
            str(fields["group"]), queue, fields["before"], fields["after"], entry.at_millis, entry.node, text, entry
        )


def _overwritten(history: History) -> Iterator[Rollback]:
    """Yield newer offsets of slaves that older ones of their master replaced."""
    for entry in history.of_kind("consumer_offsets_overwritten"):
        topic, _, group = str(entry.fields["key"]).partition("@")
        for queue_id, before, after in moved_offsets(entry.fields["queues"]):
            queue = Queue(topic, history.broker_of(entry.node), queue_id)
            text = f"the metadata sync of {entry.node} moved it"
            yield Rollback(group, queue, before, after, entry.at_millis, entry.node, text, entry)


def _corrected(history: History) -> Iterator[Rollback]:
    """Yield corrections of consumers whose offset was out of bounds."""
    for entry in history.of_kind("offset_illegal"):
        asked, offered = entry.fields.get("asked"), entry.fields.get("offered")
        queue = parse_queue(str(entry.fields.get("queue")))
        if queue and asked is not None and offered is not None and offered < asked:
            group = history.group_of.get(entry.node, entry.node)
            text = f"the offset of {entry.node} was out of bounds, and it moved it"
            yield Rollback(group, queue, asked, offered, entry.at_millis, entry.node, text, entry)


def _commits_going_back(commits: Iterable[Commit]) -> Iterator[Rollback]:
    """Yield commits below the last one: the group continues from an older offset."""
    latest: dict[tuple[str, Queue], int] = {}
    for commit in commits:
        before = latest.get((commit.group, commit.queue))
        if before is not None and commit.offset < before:
            text = f"{commit.node} commits less than was committed before: it went"
            yield Rollback(
                commit.group, commit.queue, before, commit.offset, commit.at, commit.node, text, commit.entry
            )
        latest[commit.group, commit.queue] = commit.offset


def parse_queue(text: str) -> Queue | None:
    """Parse `topic@broker:queue id`; None for anything else."""
    topic, at, rest = text.partition("@")
    broker, colon, queue_id = rest.rpartition(":")
    number = queue_id_of(queue_id)
    return Queue(topic, broker, number) if at and colon and number is not None else None
