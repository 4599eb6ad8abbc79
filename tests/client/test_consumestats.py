"""Rates of the last minute."""

import pytest

from rmqlab.client.consumestats import ConsumeStats, Recent


def test_values_older_than_the_window_are_dropped() -> None:
    recent = Recent(step=10.0, steps=6)
    recent.add(5, 2)
    recent.add(25, 4)
    assert (recent.total(60), recent.mean(60)) == (6, 3)
    assert recent.total(70) == 4
    assert recent.total(90) == 0
    assert recent.mean(90) == 0


def test_a_rate_covers_the_time_since_the_beginning_then_one_minute() -> None:
    recent = Recent()
    for second in range(120):
        recent.add(second, 5)
        if second >= 1:
            assert recent.per_second(second, since=-1) == pytest.approx(5, rel=0.51)
    assert recent.per_second(120, since=-1) == pytest.approx(5, rel=0.05)
    assert recent.per_second(1000, since=-1) == 0


def test_each_topic_has_its_own_rates() -> None:
    now = 100.0
    stats = ConsumeStats(lambda: now, began_at=90.0)
    stats.pulled("orders", 32, 0.004)
    stats.consumed("orders", 32, 2, 0.5)
    stats.consumed("orders", 1, 0, 0.3)
    status = stats.table()["orders"]
    assert (status.pull_tps, status.pull_rt) == (3.2, 4.0)
    assert (status.consume_ok_tps, status.consume_failed_tps, status.consume_failed_msgs) == (3.1, 0.2, 2)
    assert status.consume_rt == pytest.approx(400)
    assert "paid" not in stats.table()
    now = 3000.0
    assert stats.table()["orders"].consume_failed_tps == 0
    assert stats.table()["orders"].consume_failed_msgs == 2  # of the last hour
    now = 5000.0
    assert stats.table()["orders"].consume_failed_msgs == 0
