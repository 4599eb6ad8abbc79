"""Statistics of a broker: traffic, rates, daily totals, durations.

Traffic is counted by topic and group, durations are those of puts and gets. Sources: broker-requests sections 6.5 and
6.6; classes StatsItem, BrokerStatsManager, StoreStatsService, BrokerStats. Counting costs a look-up and a few
additions; `sample` computes the rest. A loop calls it every 10 s with the wall clock's time: this module reads no
clock.
"""

import bisect
import collections
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import attrs

from rmqlab.remoting import names
from rmqlab.remoting.bodies.runtime import BrokerStatsData, BrokerStatsItem
from rmqlab.runtime import stopwatch
from rmqlab.runtime.text.localtime import local_time

if TYPE_CHECKING:
    from datetime import date

SAMPLES_PER_TEN_MINUTES = 60
SAMPLES_PER_HOUR = 360
MAX_KEYS = 20_000
"""Maximum number of keys in each family; further keys count in the totals only."""
MAX_KEY_SIZE = 2048
"""Characters of a key, and longer ones likewise: RETRY_TOPIC of a message that is sent back may have 32,767."""
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


class Sample(NamedTuple):
    """The counters of a Traffic at one moment, in ms of the wall clock."""

    at: int
    calls: int
    messages: int
    size: int


@attrs.define(eq=False)
class Traffic:
    """Traffic under one key: calls, messages, bytes; and samples of the past."""

    began_at: int = 0
    calls: int = 0
    messages: int = 0
    size: int = 0
    minute: collections.deque[Sample] = attrs.field(init=False)
    hour: collections.deque[Sample] = attrs.field(init=False)
    day: collections.deque[Sample] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        nothing = Sample(self.began_at, 0, 0, 0)
        self.minute = collections.deque([nothing], maxlen=7)
        self.hour = collections.deque([nothing], maxlen=7)
        self.day = collections.deque([nothing], maxlen=25)

    @property
    def is_idle(self) -> bool:
        """True if no call was counted in the samples of a whole day."""
        return len(self.day) == self.day.maxlen and self.day[0].calls == self.calls

    def now(self, at: int) -> Sample:
        """The counters as they are."""
        return Sample(at, self.calls, self.messages, self.size)


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


class _Totals(NamedTuple):
    at: int
    put: int
    found: int
    missed: int
    got: int


class BrokerStats:
    """The counters of one broker. `began_at` is in ms of the wall clock."""

    def __init__(self, began_at: int = 0) -> None:
        self.topic_puts: dict[str, Traffic] = {}
        self.group_gets: dict[str, Traffic] = {}
        """By `topic@group`, like the next."""
        self.send_backs: dict[str, Traffic] = {}
        self.puts = Traffic(began_at)
        """All that was stored."""
        self.broker_puts = Traffic(began_at)
        """What clients sent, and delayed messages once more when they are delivered. Its calls are not counted."""
        self.gets = Traffic(began_at)
        self.replicated_messages = 0
        """Count a slave's dispatched records as puts, as RocketMQ's store does, without topics."""
        self.replicated_size = 0
        self.misses = 0
        self.put_failures = 0
        self.put_times = Times()
        self.get_times = Times()
        self.days = DayTotals()
        self._sampled_at = began_at
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
        self.count_topic_put(topic, messages, size)
        self.broker_puts.messages += messages

    def count_topic_put(self, topic: str, messages: int, size: int) -> None:
        """Count a record under its topic only, such as a waiting retry."""
        traffic = self.topic_puts.get(topic)
        if traffic is None:
            traffic = self._begin(self.topic_puts, topic)
        traffic.calls += 1
        traffic.messages += messages
        traffic.size += size

    def count_own_put(self, messages: int, size: int) -> None:
        """Count a record in the totals of the store only."""
        self.puts.calls += 1
        self.puts.messages += messages
        self.puts.size += size

    def count_delivery(self, topic: str, size: int) -> None:
        """Count a delayed message in its own topic, when it is stored there.

        It counts as a pull, too (class ScheduleMessageService).
        """
        self.count_client_put(topic, 1, size)
        self._count_group_get(names.SCHEDULE_TOPIC, names.SCHEDULE_GROUP, 1, size)

    def count_replicated(self, messages: int, size: int) -> None:
        """Count messages of the master that a slave dispatched."""
        self.replicated_messages += messages
        self.replicated_size += size

    def count_put_failure(self) -> None:
        """Count a send that the store refused."""
        self.put_failures += 1

    def count_get(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count a pull that found messages."""
        self._count_group_get(topic, group, messages, size)
        self.gets.calls += 1
        self.gets.messages += messages
        self.gets.size += size

    def _count_group_get(self, topic: str, group: str, messages: int, size: int) -> None:
        key = f"{topic}@{group}"
        traffic = self.group_gets.get(key)
        if traffic is None:
            traffic = self._begin(self.group_gets, key)
        traffic.calls += 1
        traffic.messages += messages
        traffic.size += size

    def count_miss(self) -> None:
        """Count a pull without messages."""
        self.misses += 1

    def count_send_back(self, topic: str, group: str) -> None:
        """Count a message that a consumer handed back."""
        key = f"{topic}@{group}"
        traffic = self.send_backs.get(key)
        if traffic is None:
            traffic = self._begin(self.send_backs, key)
        traffic.calls += 1
        traffic.messages += 1

    def _begin(self, family: dict[str, Traffic], key: str) -> Traffic:
        """Count under a new key, unless it is too long, or there are too many."""
        traffic = Traffic(self._sampled_at)
        if len(family) < MAX_KEYS and len(key) <= MAX_KEY_SIZE:
            family[key] = traffic
        return traffic

    # -- sampling ---------------------------------------------------------------------------------

    def sample(self, now_millis: int) -> None:
        """Sample all counters. To be called every 10 s."""
        self._samples += 1
        self._sampled_at = now_millis
        for traffic in self._all():
            sample = traffic.now(now_millis)
            traffic.minute.append(sample)
            if self._samples % SAMPLES_PER_TEN_MINUTES == 0:
                traffic.hour.append(sample)
            if self._samples % SAMPLES_PER_HOUR == 0:
                traffic.day.append(sample)
        if self._samples % SAMPLES_PER_HOUR == 0:
            self._forget_idle()
        self._totals.append(_Totals(now_millis, self.put_total, self.gets.calls, self.misses, self.gets.messages))
        if self._samples % _WINDOWS[1] == 0:
            self.put_times.turn_minute()
            self.get_times.turn_minute()
        today = local_time(now_millis).date()
        if self._day is not None and today != self._day:
            self.days.turn(self.put_total, self.gets.messages)
        self._day = today

    def _forget_idle(self) -> None:
        """Remove keys without traffic for a day: all their rates and sums are 0."""
        for family in (self.topic_puts, self.group_gets, self.send_backs):
            for key in [key for key, traffic in family.items() if traffic.is_idle]:
                del family[key]

    def _all(self) -> Iterator[Traffic]:
        yield self.puts
        yield self.broker_puts
        yield self.gets
        for family in (self.topic_puts, self.group_gets, self.send_backs):
            yield from family.values()

    # -- reading ----------------------------------------------------------------------------------

    @property
    def put_total(self) -> int:
        """Messages stored since the start."""
        return self.puts.messages + self.replicated_messages

    @property
    def put_size_total(self) -> int:
        """Their bytes in the commit log."""
        return self.puts.size + self.replicated_size

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

    def group_get_tps(self, topic: str, group: str) -> float:
        """Messages per second that a group pulled from a topic during the last minute."""
        traffic = self.group_gets.get(f"{topic}@{group}")
        return _window(traffic.minute, by_size=False).tps if traffic is not None else 0.0

    def view(self, name: str, key: str, cluster: str) -> BrokerStatsData | None:
        """Return the data of request 315; None without such an item."""
        family, by_size = self._family(name, cluster)
        traffic = family.get(key)
        if traffic is None:
            return None
        has_calls = not name.startswith("BROKER_")  # BrokerStatsManager adds messages only there
        return BrokerStatsData(
            stats_minute=_window(traffic.minute, by_size=by_size, has_calls=has_calls),
            stats_hour=_window(traffic.hour, by_size=by_size, has_calls=has_calls),
            stats_day=_window(traffic.day, by_size=by_size, has_calls=has_calls),
        )

    def _family(self, name: str, cluster: str) -> tuple[dict[str, Traffic], bool]:
        match name:
            case "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE":
                return self.topic_puts, name.endswith("SIZE")
            case "GROUP_GET_NUMS" | "GROUP_GET_SIZE":
                return self.group_gets, name.endswith("SIZE")
            case "SNDBCK_PUT_NUMS":
                return self.send_backs, False
            case "BROKER_PUT_NUMS":
                return {cluster: self.broker_puts}, False
            case "BROKER_GET_NUMS":
                return {cluster: self.gets}, False
        return {}, False

    def _rates(self, value: Callable[[_Totals], int]) -> str:
        last = self._totals[-1]
        rates = []
        for window in _WINDOWS:
            first = self._totals[max(len(self._totals) - 1 - window, 0)]
            seconds = (last.at - first.at) / 1000
            rates.append((value(last) - value(first)) / seconds if seconds > 0 else 0.0)
        return " ".join(map(str, rates))


def _window(samples: collections.deque[Sample], *, by_size: bool, has_calls: bool = True) -> BrokerStatsItem:
    first, last = samples[0], samples[-1]
    total = last.size - first.size if by_size else last.messages - first.messages
    seconds, calls = (last.at - first.at) / 1000, last.calls - first.calls
    return BrokerStatsItem(
        sum=total,
        tps=total / seconds if seconds > 0 else 0.0,
        avgpt=total / calls if calls and has_calls else 0.0,
    )
