"""Topics: configuration and its version, bounds of queues, lists.

Sources: remoting-and-nameserver sections 3.5, 3.11; broker-requests sections 6.2 to 6.4.
"""

from typing import Any, Final

import msgspec

from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.body import Body, Table, name_in
from rmqlab.remoting.header import Int, Long

SINGLE_TAG: Final = "SINGLE_TAG"
MULTI_TAG: Final = "MULTI_TAG"
FILTER_TYPES: Final = (SINGLE_TAG, MULTI_TAG)
"""Names of filter types, in the order of Java's ordinals."""


class DataVersion(Body, frozen=True, kw_only=True):
    """Version of a table, which every change of the table changes.

    It is compared as a whole (322, and in other requests).
    """

    counter: Long = 0
    timestamp: Long = 0
    """Milliseconds."""


class TopicConfig(Body, frozen=True, kw_only=True, gc=False):
    """One topic. The defaults are those of a member that is missing on the wire."""

    order: bool = False
    perm: Int = 6
    """Bits: 4 read, 2 write, 1 inherit."""
    read_queue_nums: Int = 16
    topic_filter_type: str = SINGLE_TAG
    topic_name: str
    topic_sys_flag: Int = 0
    """Bits: 1 unit, 2 unit-sub."""
    write_queue_nums: Int = 16


class TopicConfigSerializeWrapper(Table, frozen=True, kw_only=True):
    """All topics of a broker: response of 21, in 103, in topics.json."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = {}

    @classmethod
    def normalized(cls, value: Any) -> Any:
        """Accept filter types by their ordinals, too."""
        table = value.get("topicConfigTable") if isinstance(value, dict) else None
        for topic in table.values() if isinstance(table, dict) else ():
            if isinstance(topic, dict) and (named := name_in(FILTER_TYPES, topic.get("topicFilterType"))):
                topic["topicFilterType"] = named
        return value


class TopicList(Table, frozen=True, kw_only=True):
    """Response of 206, 224, 304, 305, 311 to 313.

    Only 304 has an address (remoting#20).
    """

    broker_addr: str | None = None
    topic_list: list[str] = []


class TopicOffset(Body, frozen=True, kw_only=True):
    """Bounds of one queue.

    The timestamp is when its last message was stored, 0 if it is empty.
    """

    last_update_timestamp: Long = 0
    max_offset: Long = 0
    min_offset: Long = 0


class TopicStatsTable(Table, frozen=True, kw_only=True):
    """Response of 202."""

    offset_table: dict[MessageQueue, TopicOffset] = {}


class GroupList(Body, frozen=True, kw_only=True):
    """Response of 300: the groups that consume a topic."""

    group_list: list[str] = []
