"""Expressions that consumer groups have registered.

The contents of consumerFilter.json, and of the response of 321. Classes ConsumerFilterData, ConsumerFilterManager,
BloomFilterData. Times in milliseconds.
"""

from collections.abc import Iterator, Mapping

import msgspec

from rmqlab.remoting.body import Body, Table, encode_part, encode_pretty_entry
from rmqlab.remoting.header import Int, Long

SQL92 = "SQL92"


class BloomFilterData(Body, frozen=True, kw_only=True):
    """The bits of one group and topic."""

    bit_num: Int = 0
    bit_pos: list[Int] = []


class ConsumerFilterData(Body, frozen=True, kw_only=True):
    """One group's filter for one topic. Times in milliseconds."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: Long = 0
    client_version: Long = 0
    """The subscription's version."""
    consumer_group: str
    dead: bool = False
    """Written for readers; what counts is the time."""
    dead_time: Long = 0
    """0 while the group has consumers."""
    expression: str
    expression_type: str = SQL92
    topic: str

    @property
    def is_dead(self) -> bool:
        """True once the group has no consumer of this topic."""
        return self.dead_time >= self.born_time

    def dying(self, at: int) -> "ConsumerFilterData":
        """Return a copy with this time of death; 0 means alive."""
        return msgspec.structs.replace(self, dead_time=at, dead=at >= self.born_time)


class FilterDataByTopic(Body, frozen=True, kw_only=True):
    """All groups' filters for one topic."""

    group_filter_data: dict[str, ConsumerFilterData] = {}
    topic: str = ""


class FilterTableBody(Table, frozen=True, kw_only=True):
    """consumerFilter.json."""

    filter_data_by_topic: dict[str, FilterDataByTopic] = {}


def pretty_parts(filters: Mapping[str, Mapping[str, ConsumerFilterData]]) -> Iterator[bytes]:
    """Yield the text of `FilterTableBody.encode_pretty` in parts.

    `filters` are those of each topic and group. There is a part for each, and one for the end.
    """
    if not filters:
        yield FilterTableBody().encode_pretty()
        return
    between = b'{\n\t"filterDataByTopic":{'
    for topic, groups in filters.items():
        name = encode_part(topic)
        between += b"\n\t\t" + name + b':{\n\t\t\t"groupFilterData":{'
        for group, data in groups.items():
            yield between + encode_pretty_entry(group, data, 4)
            between = b","
        between = b'\n\t\t\t},\n\t\t\t"topic":' + name + b"\n\t\t},"
    yield between.removesuffix(b",") + b"\n\t}\n}"
