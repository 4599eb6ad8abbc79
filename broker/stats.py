"""Statistics of a broker: rates, daily totals, durations of puts and gets.

Sources: broker-requests section 6.5; classes StoreStatsService, BrokerStats. Statistics by topic and group are in
statsitems.py. `sample` computes what is not counted. A loop calls it every 10 s with the wall clock's time: this module
reads no clock.
"""

import bisect
import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import attrs

from rmqlab.broker.statsitems import StatsItems
from rmqlab.remoting import names
from rmqlab.runtime import stopwatch
from rmqlab.runtime.text.localtime import local_time

if TYPE_CHECKING:
    from datetime import date

SAMPLES_PER_TEN_MINUTES = 60
SAMPLES_PER_HOUR = 360
_WINDOWS = (1, 6, 60)
"""Samples in 10 s, 60 s and 600 s: the three rates of runtime info."""
_TIME_BOUNDS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
"""Each class begins at its bound; the first has zeros only."""
_TIME_NAMES = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]",
    "[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip
_LATENCY_BOUNDS = (
    *range(1, 21), *range(22, 51, 2), *range(55, 101, 5), *range(110, 201, 10), *range(250, 501, 50),
    *range(600, 1001, 100), *range(2000, 10_001, 1000), 2**63 - 1,
)  # fmt: skip
"""Upper ends of the classes between which percentiles are interpolated."""


@attrs.define(eq=False)
class Times:
    """Durations of one kind of call, in ms.

    The distribution and the percentiles are those of the last whole minute, the maximum counts from the start (class
    StoreStatsService).
    """

    quick: int = 0
    """Number of calls of this minute that were shorter than a millisecond: nearly all."""
    longest: int = 0
    recent: collections.deque[tuple[float, int]] = attrs.field(factory=lambda: collections.deque(maxlen=64))
    """The last slow calls: end, by stopwatch.wall, and duration."""
    _this_minute: collections.Counter[int] = attrs.field(factory=collections.Counter)
    """Calls by their milliseconds, without the quick ones."""
    _last_minute: collections.Counter[int] = attrs.field(factory=collections.Counter)

    def count(self, seconds: float) -> None:
        """Count one call."""
        if seconds < 0.001:
            self.quick += 1
            return
        millis = int(seconds * 1000)
        self.recent.append((stopwatch.wall(), millis))
        self._this_minute[millis] += 1
        self.longest = max(self.longest, millis)

    @property
    def distribution(self) -> list[int]:
        """Calls by class: 0, below 10, below 50 ms, and so on."""
        calls = [0] * len(_TIME_NAMES)
        for millis, count in self._last_minute.items():
            calls[bisect.bisect_right(_TIME_BOUNDS, millis) if millis else 0] += count
        return calls

    def percentile(self, share: float) -> float:
        """The time within which this share of the calls ended.

        It is interpolated within its class.
        """
        calls = [0] * len(_LATENCY_BOUNDS)
        for millis, count in self._last_minute.items():
            calls[bisect.bisect_left(_LATENCY_BOUNDS, millis)] += count
        left, lower = int(share * sum(calls)), 0
        for upper, count in zip(_LATENCY_BOUNDS, calls, strict=True):
            if left <= count:
                return lower + (upper - lower) * left / count if count else lower
            left -= count
            lower = upper
        return 0.0

    def turn_minute(self) -> None:
        """Begin a minute; the one that ends is the last."""
        self._last_minute, self._this_minute = self._this_minute, collections.Counter()
        self._last_minute[0], self.quick = self.quick, 0

    def __str__(self) -> str:
        return "".join(f"{name}:{calls} " for name, calls in zip(_TIME_NAMES, self.distribution, strict=True))


@attrs.define(eq=False)
class DayTotals:
    """Totals of messages put and got at the last two midnights."""

    put_yesterday: int = 0
    put_today: int = 0
    get_yesterday: int = 0
    get_today: int = 0

    def turn(self, put: int, get: int) -> None:
        """Note the totals at midnight."""
        self.put_yesterday, self.put_today = self.put_today, put
        self.get_yesterday, self.get_today = self.get_today, get


@attrs.define(eq=False)
class Total:
    """Calls, messages and bytes since the start."""

    calls: int = 0
    messages: int = 0
    size: int = 0

    def count(self, messages: int, size: int) -> None:
        """Count messages of one call."""
        self.calls += 1
        self.messages += messages
        self.size += size


class _Totals(NamedTuple):
    at: int
    put: int
    found: int
    missed: int
    got: int


class BrokerStats:
    """The counters of one broker. `began_at` is in ms of the wall clock."""

    def __init__(self, began_at: int, items: StatsItems) -> None:
        self.items = items
        """What request 315 returns."""
        self.puts = Total()
        """All that was stored."""
        self.gets = Total()
        self.replicated = Total()
        """A slave's dispatched records count as puts, as in RocketMQ's store, without topics."""
        self.misses = 0
        self.put_failures = 0
        self.put_times = Times()
        self.get_times = Times()
        self.days = DayTotals()
        self._samples = 0
        self._day: date | None = None
        self._totals = collections.deque([_Totals(began_at, 0, 0, 0, 0)], maxlen=_WINDOWS[-1] + 1)

    # -- counting ---------------------------------------------------------------------------------

    def count_put(self, topic: str, messages: int, size: int) -> None:
        """Count a stored send under the topic of its record.

        That of a delayed message is the schedule topic.
        """
        self.count_client_put(topic, messages, size)
        self.count_own_put(messages, size)

    def count_client_put(self, topic: str, messages: int, size: int) -> None:
        """Count a record as a client's in request 315 only."""
        self.items.count_topic_put(topic, messages, size)
        self.items.count_broker_put(messages)

    def count_own_put(self, messages: int, size: int) -> None:
        """Count a record in the totals of the store only."""
        self.puts.count(messages, size)

    def count_delivery(self, topic: str, queue_id: int, size: int) -> None:
        """Count a delayed message in its own topic, when it is stored there.

        It counts as a pull from its queue of the schedule topic, too (class ScheduleMessageService).
        """
        self.count_client_put(topic, 1, size)
        self.items.count_group_get(names.SCHEDULE_TOPIC, names.SCHEDULE_GROUP, 1, size)
        self.items.count_schedule_get(queue_id, size)

    def count_replicated(self, messages: int, size: int) -> None:
        """Count messages of the master that a slave dispatched."""
        self.replicated.count(messages, size)

    def count_put_failure(self) -> None:
        """Count a send that the store refused."""
        self.put_failures += 1

    def count_get(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count a pull that found messages."""
        self.items.count_group_get(topic, group, messages, size)
        self.items.count_broker_get(messages)
        self.gets.count(messages, size)

    def count_miss(self) -> None:
        """Count a pull without messages."""
        self.misses += 1

    # -- sampling ---------------------------------------------------------------------------------

    def sample(self, now_millis: int) -> None:
        """Sample all counters. To be called every 10 s."""
        self._samples += 1
        self.items.sample(
            now_millis,
            of_hour=self._samples % SAMPLES_PER_TEN_MINUTES == 0,
            of_day=self._samples % SAMPLES_PER_HOUR == 0,
        )
        self._totals.append(_Totals(now_millis, self.put_total, self.gets.calls, self.misses, self.gets.messages))
        if self._samples % _WINDOWS[1] == 0:
            self.put_times.turn_minute()
            self.get_times.turn_minute()
        today = local_time(now_millis).date()
        if self._day is not None and today != self._day:
            self.days.turn(self.put_total, self.gets.messages)
        self._day = today

    # -- reading ----------------------------------------------------------------------------------

    @property
    def put_total(self) -> int:
        """Messages stored since the start."""
        return self.puts.messages + self.replicated.messages

    @property
    def put_size_total(self) -> int:
        """Their bytes in the commit log."""
        return self.puts.size + self.replicated.size

    def put_tps(self) -> str:
        """Messages put per second over 10, 60 and 600 s; as text, like the next four."""
        return self._rates(lambda totals: totals.put)

    def found_tps(self) -> str:
        """Pulls that found messages."""
        return self._rates(lambda totals: totals.found)

    def miss_tps(self) -> str:
        """Pulls that found none."""
        return self._rates(lambda totals: totals.missed)

    def get_total_tps(self) -> str:
        """Pulls of both kinds."""
        return self._rates(lambda totals: totals.found + totals.missed)

    def transferred_tps(self) -> str:
        """Messages that pulls returned."""
        return self._rates(lambda totals: totals.got)

    def _rates(self, value: Callable[[_Totals], int]) -> str:
        last = self._totals[-1]
        rates = []
        for window in _WINDOWS:
            first = self._totals[max(len(self._totals) - 1 - window, 0)]
            seconds = (last.at - first.at) / 1000
            rates.append((value(last) - value(first)) / seconds if seconds > 0 else 0.0)
        return " ".join(map(str, rates))
