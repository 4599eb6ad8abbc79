"""Headers of groups."""

import pytest

from rmqlab.remoting.header import header_from_json
from rmqlab.remoting.headers.group import DeleteSubscriptionGroupRequestHeader, UnregisterClientRequestHeader


@pytest.mark.parametrize(
    ("wire", "drops"),
    [
        (b'{"groupName":"G"}', False),
        (b'{"groupName":"G","removeOffset":"true"}', True),
        (b'{"groupName":"G","cleanOffset":"true"}', True),
        (b'{"groupName":"G","removeOffset":"false","cleanOffset":"false"}', False),
    ],
)
def test_both_names_of_the_flag_drop_offsets(wire: bytes, drops: bool) -> None:  # noqa: FBT001  # parametrised
    """broker-requests 6.1: 5.x renamed it"""
    assert header_from_json(DeleteSubscriptionGroupRequestHeader, wire).drops_offsets is drops


def test_an_empty_group_is_as_false_as_a_missing_one() -> None:
    """broker-requests#42"""
    header = header_from_json(UnregisterClientRequestHeader, b'{"clientID":"c","producerGroup":"","consumerGroup":"G"}')
    assert (header.client_id, header.producer_group, header.consumer_group) == ("c", "", "G")
    assert header_from_json(UnregisterClientRequestHeader, b'{"clientID":"c"}').consumer_group is None
