"""Selects events that certainly followed the last deletion of a topic or group.

Members of a group may still have messages and offsets from before, and journal them later. So a delivery counts if its
message was sent after the deletion. A commit counts if its consumer received such a message of the queue before.
"""

from collections.abc import Iterator, Mapping

import attrs

from rmqlab.cluster.checks.events import Commit, Delivery, Queue
from rmqlab.cluster.checks.history import History


@attrs.frozen
class AfterDeletions:
    """The deliveries and commits of a run, without those that may be from before."""

    history: History
    _sent_at: Mapping[tuple[str, str], int]
    """Begin of the last send of each message, by broker name and message. Empty without deletions."""

    @classmethod
    def of(cls, history: History) -> "AfterDeletions":
        """Find the messages that were sent after deletions."""
        brokers = {broker for broker, _ in (*history.deleted_topics, *history.deleted_groups)}
        sent_at: dict[tuple[str, str], int] = {}
        for send in history.sends if brokers else ():
            if send.queue is not None and send.queue.broker in brokers:
                for message_id in send.ids:
                    key = (send.queue.broker, message_id)
                    sent_at[key] = max(send.began_at, sent_at.get(key, send.began_at))
        return cls(history, sent_at)

    def is_of_queue(self, delivery: Delivery) -> bool:
        """Return True if a message is of the queue since its topic's last deletion."""
        queue = delivery.queue
        return self._is_after(delivery, self.history.deleted_topics.get((queue.broker, queue.topic)))

    def is_of_group(self, delivery: Delivery) -> bool:
        """Return True if a group pulled a message after its last deletion."""
        return self._is_after(delivery, self.history.deleted_groups.get((delivery.queue.broker, delivery.group)))

    def _is_after(self, delivery: Delivery, deleted_at: int | None) -> bool:
        if deleted_at is None:
            return True
        sent_at = self._sent_at.get((delivery.queue.broker, delivery.message_id))
        return sent_at is not None and sent_at > deleted_at

    def commits(self) -> Iterator[Commit]:
        """Yield the commits in queues since the last deletion of their topics."""
        if not self.history.deleted_topics:
            yield from self.history.commits
            return
        first: dict[tuple[str, str, Queue], tuple[int, int]] = {}
        for delivery in self.history.deliveries:
            if self.history.is_deleted(delivery.queue) and self.is_of_queue(delivery):
                first.setdefault((delivery.node, delivery.group, delivery.queue), self._place(delivery))
        for commit in self.history.commits:
            since = first.get((commit.node, commit.group, commit.queue))
            if not self.history.is_deleted(commit.queue) or (since is not None and self._place(commit) > since):
                yield commit

    @staticmethod
    def _place(one: Delivery | Commit) -> tuple[int, int]:
        """Return the place of an entry in the journal of its node."""
        return one.at, one.entry.seq
