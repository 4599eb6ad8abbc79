"""The topics of a broker: configuration, version and file.

Class TopicConfigManager.
"""

import pathlib
from collections.abc import Callable, Iterable, Mapping

import msgspec

from rmqlab.broker.config import MAX_QUEUES, BrokerConfig
from rmqlab.broker.tables.subscriptions import MAX_GROUPS
from rmqlab.broker.tables.tablefile import Defer, VersionedTable, at_once
from rmqlab.broker.tables.tableroom import TableRoom
from rmqlab.remoting import names
from rmqlab.remoting.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.net.dispatch import Refusal
from rmqlab.store.files.configfile import load_config_file

PERM_INHERIT, PERM_WRITE, PERM_READ = 1, 2, 4
SYSFLAG_UNIT, SYSFLAG_UNIT_SUB = 1, 2
SCHEDULE_QUEUES = 18
MAX_TOPICS = 100_000
"""Topics that clients can make. Those of retries and dead letters follow the number of groups."""
MAX_TOPIC_BYTES = 9 * 2**20
"""Bytes of their JSON in a registration."""
MAX_GROUP_TOPIC_BYTES = 6 * 2**20
"""The same for topics of retries and dead letters: both together fit into a frame."""
_ENTRY_BYTES = 160
_OF_GROUPS = (names.RETRY_PREFIX, names.DLQ_PREFIX)

MAX_COPIED = MAX_TOPICS + 2 * MAX_GROUPS
"""Topics that a slave copies from its master, with those of retries and dead letters."""


class TopicTable(VersionedTable):
    """Topics by name, in topics.json."""

    def __init__(
        self, config: BrokerConfig, path: pathlib.Path, now_millis: Callable[[], int], defer: Defer = at_once
    ) -> None:
        super().__init__("topicConfigTable", path, now_millis, defer)
        self.config = config
        self.topics: dict[str, TopicConfig] = {topic.topic_name: topic for topic in built_in_topics(config)}
        self.system_topics = frozenset(self.topics) - {names.BENCHMARK_TOPIC} | names.SYSTEM_TOPICS
        loaded = load_config_file(path, TopicConfigSerializeWrapper.decode)
        if loaded is not None:
            self.topics.update(bounded(loaded.topic_config_table))
            self.data_version = loaded.data_version
        self._room = TableRoom(MAX_TOPICS, MAX_TOPIC_BYTES, _ENTRY_BYTES)
        self._group_room = TableRoom(2 * MAX_GROUPS, MAX_GROUP_TOPIC_BYTES, _ENTRY_BYTES)
        self._count()

    def get(self, topic: str) -> TopicConfig | None:
        """Return the configuration of a topic, or None."""
        return self.topics.get(topic)

    def require(self, topic: str, code: ResponseCode = ResponseCode.TOPIC_NOT_EXIST) -> TopicConfig:
        """Return the configuration of a topic. Refusal with this code without one."""
        config = self.topics.get(topic)
        if config is None:
            raise Refusal(code, f"topic {topic} does not exist here")
        return config

    def put(self, topic: TopicConfig) -> None:
        """Create a topic or replace its configuration.

        It gets MAX_QUEUES queues at most.
        """
        if topic.topic_name not in self.topics:
            self._room_of(topic.topic_name).add(topic.topic_name)
        self.topics |= bounded({topic.topic_name: topic})
        self._changed()

    def has_room(self, topic: str) -> bool:
        """True if a topic exists or may be created.

        Topics of consumer groups have room of their own, so that neither kind keeps out the other.
        """
        return topic in self.topics or topic in names.SYSTEM_TOPICS or self._room_of(topic).has_room(topic)

    def delete(self, topic: str) -> bool:
        """Delete a topic. True if it existed."""
        if self.topics.pop(topic, None) is None:
            return False
        self._room_of(topic).remove(topic)
        self._changed()
        return True

    def create_from_default(
        self, topic: str, default_topic: str, queue_nums: int, *, unit_mode: bool, is_retry: bool
    ) -> TopicConfig | None:
        """Create a topic on its first send, from a template that allows it.

        It gets as many queues as the client requests, at most those of the template (broker-requests section 1.3).
        None if the template does not allow it or there are too many topics. The first send that is refused because
        auto_create_topic_enable was set to false closes the template, also for the time after that setting is true
        again (TopicConfigManager.createTopicInSendMessageMethod).
        """
        template = self.topics.get(default_topic)
        if template is None or not self.has_room(topic):
            return None
        if default_topic == names.DEFAULT_TOPIC and not self.config.auto_create_topic_enable:
            self.topics[default_topic] = msgspec.structs.replace(template, perm=PERM_READ | PERM_WRITE)
            return None
        if not template.perm & PERM_INHERIT:
            return None
        queues = max(min(queue_nums, template.write_queue_nums), 0)
        made = msgspec.structs.replace(
            template,
            topic_name=topic,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=template.perm & ~PERM_INHERIT,
            topic_sys_flag=_unit_flag(unit_mode=unit_mode, is_retry=is_retry),
            order=False,
        )
        self.put(made)
        return made

    def create_plain(self, topic: str, queue_nums: int, *, unit_mode: bool = False, perm: int = 6) -> TopicConfig:
        """Return a retry, dead-letter or system topic, created if missing.

        Refusal without room.
        """
        known = self.topics.get(topic)
        if known is not None:
            return known
        if not self.has_room(topic):
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"this broker has no room for topic {topic}: delete groups")
        is_retry = topic.startswith(names.RETRY_PREFIX)
        made = TopicConfig(
            topic_name=topic,
            read_queue_nums=queue_nums,
            write_queue_nums=queue_nums,
            perm=perm,
            topic_sys_flag=_unit_flag(unit_mode=unit_mode, is_retry=is_retry),
        )
        self.put(made)
        return made

    def apply_order_topics(self, order_topics: Iterable[str]) -> bool:
        """Apply the order flags of a nameserver's KV table; return True if changed.

        Listed topics are ordered, all others are not.
        """
        wanted = set(order_topics)
        changed = [name for name, topic in self.topics.items() if topic.order != (name in wanted)]
        for name in changed:
            topic = self.topics[name]
            self.topics[name] = msgspec.structs.replace(topic, order=not topic.order)
        if changed:
            self._changed()
        return bool(changed)

    def replace_all(self, wrapper: TopicConfigSerializeWrapper) -> bool:
        """Replace the table by a master's if the versions differ (store-ha#60).

        Returns True if replaced. TooManyError above MAX_COPIED topics.
        """
        topics = wrapper.topic_config_table
        if not self._adopt_version(wrapper.data_version, len(topics), MAX_COPIED, "topics"):
            return False
        self.topics = bounded(topics)
        self._count()
        self._save_soon()
        return True

    def _room_of(self, topic: str) -> TableRoom:
        return self._group_room if topic.startswith(_OF_GROUPS) else self._room

    def _count(self) -> None:
        self._room.count(topic for topic in self.topics if not topic.startswith(_OF_GROUPS))
        self._group_room.count(topic for topic in self.topics if topic.startswith(_OF_GROUPS))

    def wrapper(self) -> TopicConfigSerializeWrapper:
        """Return the table as sent over the wire and saved."""
        return TopicConfigSerializeWrapper(data_version=self.data_version, topic_config_table=self.topics)

    def rows(self) -> Mapping[str, TopicConfig]:
        return self.topics

    def empty_wrapper(self) -> TopicConfigSerializeWrapper:
        return TopicConfigSerializeWrapper(data_version=self.data_version)


def bounded(topics: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
    """Return the topics, with MAX_QUEUES queues at most.

    Those of a file or a master may have more.
    """
    return {
        name: topic
        if max(topic.read_queue_nums, topic.write_queue_nums) <= MAX_QUEUES
        else msgspec.structs.replace(
            topic,
            read_queue_nums=min(topic.read_queue_nums, MAX_QUEUES),
            write_queue_nums=min(topic.write_queue_nums, MAX_QUEUES),
        )
        for name, topic in topics.items()
    }


def built_in_topics(config: BrokerConfig) -> Iterable[TopicConfig]:
    """Yield the topics of a new broker.

    Sources: store-ha#64, remoting-and-nameserver section 5.7.
    """

    def topic(name: str, queues: int, perm: int = PERM_READ | PERM_WRITE) -> TopicConfig:
        return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)

    everything = PERM_READ | PERM_WRITE | PERM_INHERIT
    yield topic(names.SELF_TEST_TOPIC, 1)
    if config.auto_create_topic_enable:
        yield topic(names.DEFAULT_TOPIC, config.default_topic_queue_nums, everything)
    yield topic(names.BENCHMARK_TOPIC, 1024)
    yield topic(config.broker_cluster_name, 16, everything if config.cluster_topic_enable else PERM_INHERIT)
    yield topic(config.broker_name, 1, everything if config.broker_topic_enable else PERM_INHERIT)
    yield topic(names.OFFSET_MOVED_EVENT, 1)
    yield topic(names.SCHEDULE_TOPIC, SCHEDULE_QUEUES)
    if config.trace_topic_enable:
        yield topic(config.msg_trace_topic_name, 1)
    yield topic(f"{config.broker_cluster_name}_REPLY_TOPIC", 1)


def _unit_flag(*, unit_mode: bool, is_retry: bool) -> int:
    if not unit_mode:
        return 0
    return SYSFLAG_UNIT_SUB if is_retry else SYSFLAG_UNIT
