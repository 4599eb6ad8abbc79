"""Which records have the content that their producer sent."""

import pytest

from rmqlab.remoting.contentcrc import keeps_content
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC

RECORDS = [
    ("orders", "", True),
    (SCHEDULE_TOPIC, "orders", True),
    (SCHEDULE_TOPIC, "", True),
    (SCHEDULE_TOPIC, "%RETRY%shop", False),
    ("%RETRY%shop", "", False),
    ("%DLQ%shop", "", False),
    (HALF_TOPIC, "orders", False),
    (TRANS_CHECK_MAX_TIME_TOPIC, "", False),
    ("retry%RETRY%shop", "", True),
]
"""Topic, final topic of a delayed or half message, and the expected result."""


@pytest.mark.parametrize(("topic", "real_topic", "expected"), RECORDS)
def test_records_that_brokers_or_consumers_change_need_not_have_the_content(
    topic: str, real_topic: str, *, expected: bool
) -> None:
    assert keeps_content(topic, real_topic) is expected
