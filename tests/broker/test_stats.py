"""Traffic, rates and totals by day (broker-requests sections 6.5, 6.6).

Calls count, and the tests take the samples.
"""

from datetime import datetime, timedelta

import pytest

from rmqlab.broker.stats import BrokerStats, Times
from rmqlab.broker.statsitems import StatsItems
from rmqlab.remoting.bodies.runtime import BrokerStatsItem

START = 1_800_000_000_000
CLUSTER = "DefaultCluster"


def new_stats(*, counts_queues: bool = True) -> BrokerStats:
    return BrokerStats(START, StatsItems(CLUSTER, counts_queues=counts_queues))


def sample(stats: BrokerStats, times: int, *, after: int = 0) -> None:
    """Sample every 10 s, the first time `after` samples that were taken before."""
    for number in range(after + 1, after + times + 1):
        stats.sample(START + number * 10_000)


def test_minute_window_is_the_last_six_samples() -> None:
    stats = new_stats()
    stats.count_put("orders", 3, 300)
    sample(stats, 1)
    stats.count_put("orders", 1, 60)
    sample(stats, 6, after=1)
    view = stats.items.view("TOPIC_PUT_NUMS", "orders")
    assert view is not None
    assert view.stats_minute == BrokerStatsItem(sum=1, tps=1 / 60, avgpt=1.0)


def test_hour_and_day_windows_grow_by_ten_minutes_and_by_an_hour() -> None:
    stats = new_stats()
    stats.count_put("orders", 6, 600)
    sample(stats, 59)
    early = stats.items.view("TOPIC_PUT_SIZE", "orders")
    assert early is not None
    assert (early.stats_hour.sum, early.stats_day.sum) == (0, 0)
    sample(stats, 301, after=59)
    late = stats.items.view("TOPIC_PUT_SIZE", "orders")
    assert late is not None
    assert late.stats_minute.sum == 0
    assert late.stats_hour == BrokerStatsItem(sum=600, tps=600 / 3600, avgpt=600.0)
    assert late.stats_day == BrokerStatsItem(sum=600, tps=600 / 3600, avgpt=600.0)


def test_the_first_sample_of_a_key_ends_a_whole_period() -> None:
    """Before the first sample zeros are assumed.

    StatsItem.samplingInMinutes, samplingInHour.
    """
    stats = new_stats()
    sample(stats, 359)
    stats.count_put("orders", 6, 600)
    sample(stats, 1, after=359)
    view = stats.items.view("TOPIC_PUT_NUMS", "orders")
    assert view is not None
    assert (view.stats_minute.tps, view.stats_hour.tps, view.stats_day.tps) == (6 / 10, 6 / 600, 6 / 3600)


@pytest.mark.parametrize(
    ("name", "key", "total"),
    [
        ("TOPIC_PUT_NUMS", "orders", 3),
        ("TOPIC_PUT_SIZE", "orders", 300),
        ("GROUP_GET_NUMS", "orders@g", 2),
        ("GROUP_GET_SIZE", "orders@g", 200),
        ("SNDBCK_PUT_NUMS", "orders@g", 1),
        ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2", 1),
        ("QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@2", 70),
        ("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER", 1),
        ("QUEUE_GET_SIZE", "SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER", 60),
        ("BROKER_PUT_NUMS", CLUSTER, 3),
        ("BROKER_GET_NUMS", CLUSTER, 2),
    ],
)
def test_each_statistic_has_its_own_key(name: str, key: str, total: int) -> None:
    stats = new_stats()
    stats.count_put("orders", 3, 300)
    stats.count_get("orders", "g", 2, 200)
    stats.items.count_send_back("orders", "g")
    stats.items.count_schedule_put(2, 70)
    stats.items.count_schedule_get(2, 60)
    sample(stats, 1)
    view = stats.items.view(name, key)
    assert view is not None
    assert view.stats_minute.sum == total


@pytest.mark.parametrize(
    ("name", "key"),
    [("TOPIC_PUT_NUMS", "no-such"), ("NO_SUCH_NAME", "orders"), ("BROKER_GET_NUMS", CLUSTER)],
)
def test_a_statistic_that_nothing_was_counted_for_is_not_there(name: str, key: str) -> None:
    stats = new_stats()
    stats.count_put("orders", 1, 1)
    assert stats.items.view(name, key) is None


def test_queues_of_delayed_messages_are_not_counted_without_details() -> None:
    """enableDetailStat."""
    stats = new_stats(counts_queues=False)
    stats.items.count_schedule_put(2, 70)
    stats.items.count_schedule_get(2, 60)
    assert stats.items.queue_puts == stats.items.queue_gets == {}


def test_statistics_of_a_deleted_topic_or_group_are_dropped() -> None:
    """BrokerStatsManager.onTopicDeleted, onGroupDeleted."""
    stats = new_stats()
    for topic, group in (("T", "g"), ("T", "h"), ("TT", "g")):
        stats.count_put(topic, 1, 1)
        stats.count_get(topic, group, 1, 1)
        stats.items.count_send_back(topic, group)
    stats.items.forget_topic("T")
    assert list(stats.items.topic_puts) == ["TT"]
    assert list(stats.items.group_gets) == list(stats.items.send_backs) == ["TT@g"]
    stats.items.forget_group("g")
    assert stats.items.group_gets == stats.items.send_backs == {}
    assert stats.items.broker_puts[CLUSTER].messages == 3


def test_the_brokers_own_statistics_count_messages_but_no_calls() -> None:
    """BrokerStatsManager.incBrokerPutNums, incBrokerGetNums."""
    stats = new_stats()
    stats.count_put("orders", 3, 300)
    stats.count_get("orders", "g", 2, 200)
    sample(stats, 1)
    views = [stats.items.view(name, CLUSTER) for name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS")]
    assert [(view.stats_minute.sum, view.stats_minute.avgpt) for view in views if view] == [(3, 0.0), (2, 0.0)]


def test_rates_are_those_of_ten_seconds_a_minute_and_ten_minutes() -> None:
    stats = new_stats()
    stats.count_put("orders", 600, 1)
    sample(stats, 1)
    sample(stats, 58, after=1)
    stats.count_put("orders", 60, 1)
    sample(stats, 1, after=59)
    assert stats.put_tps() == "6.0 1.0 1.1"


def test_rates_of_a_broker_that_was_never_sampled_are_zero() -> None:
    assert new_stats().put_tps() == "0.0 0.0 0.0"


def test_a_clock_that_is_set_back_gives_no_rate() -> None:
    stats = new_stats()
    stats.count_put("orders", 5, 5)
    stats.sample(START - 1000)
    assert stats.put_tps() == "0.0 0.0 0.0"


def test_gets_and_misses_are_counted_separately() -> None:
    stats = new_stats()
    stats.count_get("orders", "g", 20, 1)
    stats.count_miss()
    sample(stats, 1)
    rates = (stats.found_tps(), stats.miss_tps(), stats.get_total_tps(), stats.transferred_tps())
    assert [rate.split()[0] for rate in rates] == ["0.1", "0.1", "0.2", "2.0"]


def test_totals_of_today_and_yesterday_move_at_local_midnight() -> None:
    stats = new_stats()
    noon = datetime.fromtimestamp(START / 1000).astimezone().replace(hour=12)
    for day in range(3):
        stats.count_put("orders", 10, 1)
        stats.count_get("orders", "g", 1, 1)
        stats.sample(int((noon + timedelta(days=day)).timestamp() * 1000))
    days = stats.days
    assert (days.put_yesterday, days.put_today, stats.put_total) == (20, 30, 30)
    assert (days.get_yesterday, days.get_today) == (2, 3)


def test_messages_that_a_slave_copies_count_as_put_but_for_no_topic() -> None:
    stats = new_stats()
    stats.count_replicated(8, 1684)
    sample(stats, 1)
    assert (stats.put_total, stats.put_size_total) == (8, 1684)
    assert stats.put_tps().split()[0] == "0.8"
    assert stats.items.topic_puts == {}


def test_times_are_those_of_the_last_whole_minute_in_classes_that_begin_at_their_bound() -> None:
    """StoreStatsService.setPutMessageEntireTimeMax.

    Request 28 shows lastPutMessageDistributeTime.
    """
    times = Times()
    for _ in range(97):
        times.count(0.0001)
    for seconds in (0.009, 0.010, 0.7):
        times.count(seconds)
    assert times.longest == 700
    assert sum(times.distribution) == 0
    times.turn_minute()
    assert str(times).startswith("[<=0ms]:97 [0~10ms]:1 [10~50ms]:1 [50~100ms]:0 ")
    assert "[500ms~1s]:1 " in str(times)
    times.turn_minute()
    assert (sum(times.distribution), times.longest) == (0, 700)


def test_percentiles_are_interpolated_within_the_classes_of_the_last_minute() -> None:
    """StoreStatsService.findPutMessageEntireTimePX."""
    times = Times()
    for _ in range(98):
        times.count(0.0001)
    times.count(0.023)
    times.count(0.7)
    assert times.percentile(0.999) == 0
    times.turn_minute()
    assert times.percentile(0.5) == pytest.approx(50 / 98)  # of the class from 0 to 1 ms
    assert (times.percentile(0.99), times.percentile(1.0)) == (24, 700)
    times.turn_minute()
    assert times.percentile(0.999) == 0


@pytest.mark.parametrize("millis", [10**15, -(10**15), 2**63 - 1, -(2**63)])
def test_a_clock_that_is_wrong_by_ages_is_sampled(millis: int) -> None:
    """Such a step stopped the statistics of a broker."""
    stats = new_stats()
    stats.sample(millis)
    stats.sample(START)
