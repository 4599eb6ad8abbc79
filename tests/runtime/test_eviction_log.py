"""Log lines about closed connections: one of a kind per period, with a count."""

import pytest

from rmqlab.runtime.net.eviction_log import PERIOD, EvictionLog


def test_each_kind_is_logged_once_in_a_period_with_the_number_of_others(caplog: pytest.LogCaptureFixture) -> None:
    evictions = EvictionLog()
    for number in range(1000):
        evictions.note("closed", f"10.0.0.1:{number}", "too many", now=number / 1000)
    evictions.note("rejected", "10.0.0.2:1", "the maximum", now=1.0)
    evictions.note("closed", "10.0.0.3:1", "too many", now=PERIOD)
    assert [record.getMessage() for record in caplog.records] == [
        "10.0.0.1:0: connection closed: too many",
        "10.0.0.2:1: connection rejected: the maximum",
        "10.0.0.3:1: connection closed: too many (999 more since the last such line)",
    ]
