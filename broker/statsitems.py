"""Statistics by topic, group, queue and cluster, which request 315 returns.

Classes BrokerStatsManager, StatsItemSet, StatsItem; broker-requests section 6.6. Counting costs a look-up and a few
additions; samples of the counters make the sums and rates of the last minute, hour and day.
"""

import collections
from collections.abc import Iterator
from typing import NamedTuple

import attrs

from rmqlab.remoting import names
from rmqlab.remoting.bodies.runtime import BrokerStatsData, BrokerStatsItem

MAX_KEYS = 20_000
"""Maximum number of keys in each family; further keys are not counted."""
MAX_KEY_SIZE = 2048
"""Characters of a key, and longer ones likewise: RETRY_TOPIC of a message that is sent back may have 32,767."""
_MINUTE_PERIOD, _HOUR_PERIOD, _DAY_PERIOD = 10_000, 600_000, 3_600_000
"""Milliseconds between two samples of each window."""


class Sample(NamedTuple):
    """The counters of an item at one moment, in ms of the wall clock."""

    at: int
    calls: int
    messages: int
    size: int


@attrs.define(eq=False)
class StatsItem:
    """Traffic under one key: calls, messages, bytes; and samples of the past."""

    calls: int = 0
    messages: int = 0
    size: int = 0
    minute: collections.deque[Sample] = attrs.field(factory=lambda: collections.deque(maxlen=7))
    hour: collections.deque[Sample] = attrs.field(factory=lambda: collections.deque(maxlen=7))
    day: collections.deque[Sample] = attrs.field(factory=lambda: collections.deque(maxlen=25))

    @property
    def is_idle(self) -> bool:
        """True if no message was counted in the samples of a whole day."""
        return len(self.day) == self.day.maxlen and self.day[0].messages == self.messages

    def sample(self, now_millis: int, *, of_hour: bool, of_day: bool) -> None:
        """Sample the counters for the minute.

        Also for the hour and the day when they are due.
        """
        sample = Sample(now_millis, self.calls, self.messages, self.size)
        _append(self.minute, sample, _MINUTE_PERIOD)
        if of_hour:
            _append(self.hour, sample, _HOUR_PERIOD)
        if of_day:
            _append(self.day, sample, _DAY_PERIOD)


def _append(samples: collections.deque[Sample], sample: Sample, period: int) -> None:
    """Append a sample.

    Before the first one zeros are assumed, a whole period earlier.
    """
    if not samples:
        samples.append(Sample(sample.at - period, 0, 0, 0))
    samples.append(sample)


Family = dict[str, StatsItem]


@attrs.define(eq=False)
class StatsItems:
    """The items of one broker, by statistic and key.

    A key begins when it first counts.
    """

    cluster_name: str
    """Key of the broker's own statistics. A later change of the setting does not change it, as in 4.9.8."""
    counts_queues: bool = True
    """Whether queues of the schedule topic are counted (enableDetailStat, read at the start)."""
    topic_puts: Family = attrs.field(factory=dict)
    group_gets: Family = attrs.field(factory=dict)
    """By `topic@group`, like the next."""
    send_backs: Family = attrs.field(factory=dict)
    queue_puts: Family = attrs.field(factory=dict)
    """By `topic@queueId`. Only the schedule topic is counted by queue."""
    queue_gets: Family = attrs.field(factory=dict)
    """By `topic@queueId@group`."""
    broker_puts: Family = attrs.field(factory=dict)
    """What clients sent, and delayed messages once more when they are delivered. Calls are not counted."""
    broker_gets: Family = attrs.field(factory=dict)

    def count_topic_put(self, topic: str, messages: int, size: int) -> None:
        """Count one call that put messages into a topic."""
        _count(self.topic_puts, topic, messages, size)

    def count_broker_put(self, messages: int) -> None:
        """Count messages that a client sent, or that were delivered after their delay."""
        _count(self.broker_puts, self.cluster_name, messages, 0, calls=0)

    def count_broker_get(self, messages: int) -> None:
        """Count messages that a pull returned."""
        _count(self.broker_gets, self.cluster_name, messages, 0, calls=0)

    def count_group_get(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count one pull of a group that found messages."""
        _count(self.group_gets, f"{topic}@{group}", messages, size)

    def count_send_back(self, topic: str, group: str) -> None:
        """Count a message that a consumer handed back."""
        _count(self.send_backs, f"{topic}@{group}", 1, 0)

    def count_schedule_put(self, queue_id: int, size: int) -> None:
        """Count a message that waits in a queue of the schedule topic."""
        if self.counts_queues:
            _count(self.queue_puts, f"{names.SCHEDULE_TOPIC}@{queue_id}", 1, size)

    def count_schedule_get(self, queue_id: int, size: int) -> None:
        """Count a message of such a queue that was delivered."""
        if self.counts_queues:
            _count(self.queue_gets, f"{names.SCHEDULE_TOPIC}@{queue_id}@{names.SCHEDULE_GROUP}", 1, size)

    def sample(self, now_millis: int, *, of_hour: bool, of_day: bool) -> None:
        """Sample all items.

        With the samples of the day, drop keys without traffic for a day.
        """
        for family in self._families():
            for item in family.values():
                item.sample(now_millis, of_hour=of_hour, of_day=of_day)
        if of_day:
            for family in self._families():
                for key in [key for key, item in family.items() if item.is_idle]:
                    del family[key]

    def forget_topic(self, topic: str) -> None:
        """Drop the items of a topic (onTopicDeleted)."""
        self.topic_puts.pop(topic, None)
        for family in (self.queue_puts, self.group_gets, self.queue_gets, self.send_backs):
            for key in [key for key in family if key.startswith(f"{topic}@")]:
                del family[key]

    def forget_group(self, group: str) -> None:
        """Drop the items of a group (onGroupDeleted)."""
        for family in (self.group_gets, self.queue_gets, self.send_backs):
            for key in [key for key in family if key.endswith(f"@{group}")]:
                del family[key]

    def group_get_tps(self, topic: str, group: str) -> float:
        """Messages per second that a group pulled from a topic during the last minute."""
        item = self.group_gets.get(f"{topic}@{group}")
        return _window(item.minute, by_size=False).tps if item is not None else 0.0

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """Return the data of request 315; None without such an item."""
        family, by_size = self._family(name)
        item = family.get(key)
        if item is None:
            return None
        return BrokerStatsData(
            stats_minute=_window(item.minute, by_size=by_size),
            stats_hour=_window(item.hour, by_size=by_size),
            stats_day=_window(item.day, by_size=by_size),
        )

    def _family(self, name: str) -> tuple[Family, bool]:
        """Return the items of a statistic, and whether it counts bytes."""
        match name:
            case "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE":
                return self.topic_puts, name.endswith("SIZE")
            case "GROUP_GET_NUMS" | "GROUP_GET_SIZE":
                return self.group_gets, name.endswith("SIZE")
            case "QUEUE_PUT_NUMS" | "QUEUE_PUT_SIZE":
                return self.queue_puts, name.endswith("SIZE")
            case "QUEUE_GET_NUMS" | "QUEUE_GET_SIZE":
                return self.queue_gets, name.endswith("SIZE")
            case "SNDBCK_PUT_NUMS":
                return self.send_backs, False
            case "BROKER_PUT_NUMS":
                return self.broker_puts, False
            case "BROKER_GET_NUMS":
                return self.broker_gets, False
        return {}, False

    def _families(self) -> Iterator[Family]:
        yield from (self.topic_puts, self.group_gets, self.send_backs, self.queue_puts, self.queue_gets)
        yield from (self.broker_puts, self.broker_gets)


def _count(family: Family, key: str, messages: int, size: int, *, calls: int = 1) -> None:
    """Count under a key, which is new unless it is too long, or there are too many."""
    item = family.get(key)
    if item is None:
        if len(family) >= MAX_KEYS or len(key) > MAX_KEY_SIZE:
            return
        item = family[key] = StatsItem()
    item.calls += calls
    item.messages += messages
    item.size += size


def _window(samples: collections.deque[Sample], *, by_size: bool) -> BrokerStatsItem:
    """Return sum, rate and average per call of a window.

    Zeros before its first sample.
    """
    if not samples:
        return BrokerStatsItem(sum=0, tps=0.0, avgpt=0.0)
    first, last = samples[0], samples[-1]
    total = last.size - first.size if by_size else last.messages - first.messages
    seconds, calls = (last.at - first.at) / 1000, last.calls - first.calls
    return BrokerStatsItem(
        sum=total,
        tps=total / seconds if seconds > 0 else 0.0,
        avgpt=total / calls if calls else 0.0,
    )
