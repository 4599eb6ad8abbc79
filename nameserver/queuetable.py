"""The queues of topics at each broker name.

It is the table topicQueueTable of RocketMQ's class RouteInfoManager.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

import attrs
import msgspec

from rmqlab.nameserver.limits import (
    MAX_NAME_SIZE,
    MAX_QUEUE_DATA,
    MAX_TOPIC_CHARACTERS,
    RouteTableFullError,
    check_room,
)
from rmqlab.remoting.bodies.route import QueueData
from rmqlab.remoting.bodies.topic import TopicConfig

TOPICS_AT_ONCE = 10
"""Topics of a registration that are entered in one unit of work."""
_PAIRS = "pairs of topic and broker name"


@attrs.define(eq=False)
class QueueTable:
    """The queue data of each topic at each broker name, also indexed by broker name."""

    by_topic: dict[str, dict[str, QueueData]] = attrs.field(factory=dict, init=False)
    """Topic, then broker name. A topic without queues is absent."""
    _topics_of: dict[str, dict[str, None]] = attrs.field(factory=dict, init=False)
    """Broker name: the topics that have queues there."""
    _topic_characters: int = attrs.field(default=0, init=False)
    """Length of the names of all topics."""
    _pairs: int = attrs.field(default=0, init=False)
    """Pairs of topic and broker name."""

    def check_room(self, broker_name: str, topics: Collection[TopicConfig]) -> None:
        """Raise RouteTableFullError if these topics of a broker name would exceed a limit."""
        if any(len(topic.topic_name) > MAX_NAME_SIZE for topic in topics):
            raise RouteTableFullError(f"the name of a topic has more than {MAX_NAME_SIZE} characters")
        size = sum(len(topic.topic_name) for topic in topics if topic.topic_name not in self.by_topic)
        if self._topic_characters + size > MAX_TOPIC_CHARACTERS:
            raise RouteTableFullError(f"the names of all topics have more than {MAX_TOPIC_CHARACTERS} characters")
        if self._pairs + len(topics) > MAX_QUEUE_DATA:
            held = self._topics_of.get(broker_name, {})
            fresh = sum(topic.topic_name not in held for topic in topics)
            check_room(MAX_QUEUE_DATA + 1, self._pairs + fresh, _PAIRS)

    def upsert(self, broker_name: str, topics: Iterable[TopicConfig], changed: list[str]) -> Iterator[None]:
        """Set the queues of topics at a broker name, and yield after some.

        Topics that changed are appended to `changed`. Raises RouteTableFullError if other registrations, entered in
        between, have taken the room that there was.
        """
        for count, topic in enumerate(topics, 1):
            if count % TOPICS_AT_ONCE == 0:
                yield
            data = QueueData(
                broker_name=broker_name,
                perm=topic.perm,
                read_queue_nums=topic.read_queue_nums,
                topic_sys_flag=topic.topic_sys_flag,
                write_queue_nums=topic.write_queue_nums,
            )
            by_name = self.by_topic.get(topic.topic_name)
            if by_name is None or broker_name not in by_name:
                by_name = self._add(broker_name, topic.topic_name)
            elif by_name[broker_name] == data:
                continue
            by_name[broker_name] = data
            changed.append(topic.topic_name)

    def remove_broker(self, broker_name: str) -> tuple[str, ...]:
        """Remove all queues of a broker name; return their topics."""
        return self.remove(list(self._topics_of.get(broker_name, ())), broker_name)

    def remove(self, topics: Iterable[str], broker_name: str) -> tuple[str, ...]:
        """Remove the queues of topics at a broker name; return the topics that had some."""
        removed = []
        for topic in topics:
            by_name = self.by_topic[topic]
            if by_name.pop(broker_name, None) is not None:
                self._drop_topic(broker_name, topic)
                removed.append(topic)
            if not by_name:
                del self.by_topic[topic]
                self._topic_characters -= len(topic)
        return tuple(removed)

    def delete(self, topic: str) -> bool:
        """Remove a topic at all broker names. False if it has no queues."""
        gone = self.by_topic.pop(topic, None)
        if gone is None:
            return False
        self._topic_characters -= len(topic)
        for broker_name in gone:
            self._drop_topic(broker_name, topic)
        return True

    def change_perm(self, broker_name: str, changed: Callable[[int], int]) -> tuple[int, tuple[str, ...]]:
        """Change the perm of all topics at a broker name.

        Returns the number of topics there, and those whose perm differs from before.
        """
        count, topics = 0, list[str]()
        for topic, by_name in self.by_topic.items():
            if (data := by_name.get(broker_name)) is None:
                continue
            count += 1
            if (perm := changed(data.perm)) != data.perm:
                by_name[broker_name] = msgspec.structs.replace(data, perm=perm)
                topics.append(topic)
        return count, tuple(topics)

    def _add(self, broker_name: str, topic: str) -> dict[str, QueueData]:
        """Add a topic at a broker name, whose queues are to be set in the result."""
        check_room(MAX_QUEUE_DATA, self._pairs, _PAIRS)
        if (by_name := self.by_topic.get(topic)) is None:
            check_room(MAX_TOPIC_CHARACTERS - len(topic) + 1, self._topic_characters, "characters in names of topics")
            by_name = self.by_topic[topic] = {}
            self._topic_characters += len(topic)
        self._pairs += 1
        self._topics_of.setdefault(broker_name, {})[topic] = None
        return by_name

    def _drop_topic(self, broker_name: str, topic: str) -> None:
        self._pairs -= 1
        held = self._topics_of[broker_name]
        del held[topic]
        if not held:
            del self._topics_of[broker_name]
