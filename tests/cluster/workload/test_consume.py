"""What a consumer records of a delivery."""

from types import SimpleNamespace
from typing import Any

import pytest

from rmqlab.cluster.workload.consume import describe_delivery


@pytest.mark.parametrize(
    ("body", "number"),
    [(b"17 x", 17), (b"17", 17), (b"", None), (b"x 17", None), (b"9" * 5000, None), (b"9" * 25, None)],
)
def test_a_body_has_its_number_or_no_number(body: bytes, number: int | None) -> None:
    """Journals have numbers of 64 bits, and Python converts at most 4,300 digits."""
    message: Any = SimpleNamespace(
        body=body,
        message_id="",
        topic="orders",
        queue=SimpleNamespace(broker_name="broker-a", queue_id=0),
        queue_offset=0,
        reconsume_times=0,
        from_broker_id=0,
        born_timestamp=0,
    )
    assert describe_delivery(message)["number"] == number
