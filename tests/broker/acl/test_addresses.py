"""White lists of addresses, in all their forms."""

import pytest

from rmqlab.broker.acl.addresses import address_matcher
from rmqlab.broker.acl.denial import AclDenied


@pytest.mark.parametrize(
    ("expression", "on_it", "not_on_it"),
    [
        (None, [], ["10.1.2.3"]),
        (" ", [], ["10.1.2.3"]),
        ("*", ["10.1.2.3", "::1"], []),
        ("*.*.*.*", ["10.1.2.3", "::1"], []),
        ("*:*:*:*:*:*:*:*", ["10.1.2.3"], []),
        ("10.1.2.3", ["10.1.2.3"], ["10.1.2.4", "10.1.2.30"]),
        ("10.1.2.3,10.1.2.4", ["10.1.2.3", "10.1.2.4"], ["10.1.2.5"]),
        ("10.1.2.{3,14}", ["10.1.2.3", "10.1.2.14"], ["10.1.2.4", "10.1.2.1"]),
        ("10.1.2.*", ["10.1.2.0", "10.1.2.255"], ["10.1.3.1", "10.11.2.1"]),
        ("10.1.*.*", ["10.1.0.1", "10.1.200.9"], ["10.2.0.1"]),
        ("10.1.2-20.*", ["10.1.2.1", "10.1.20.255"], ["10.1.1.1", "10.1.21.1"]),
        ("10.1.2.5-9", ["10.1.2.5", "10.1.2.9"], ["10.1.2.4", "10.1.2.10"]),
        ("10.5-9.1.1", ["10.5.1.1", "10.9.77.3"], ["10.4.1.1"]),
        ("1ac5:81::1", ["1AC5:81:0:0:0:0:0:1", "1ac5:81::1"], ["1ac5:81::2"]),
        ("1::{2,3}", ["1:0:0:0:0:0:0:2", "1::3"], ["1::4"]),
        ("5::7:6:1-200:*", ["5::7:6:1:39", "5::7:6:200:1"], ["5::7:6:201:1", "5::7:5:1:1", "10.1.2.3"]),
        ("5::7:6:*", ["5::7:6:1", "5::7:6:ffff"], ["5::7:7:1"]),
    ],
)
def test_an_address_list_matches_its_addresses_only(
    expression: str | None, on_it: list[str], not_on_it: list[str]
) -> None:
    matches = address_matcher(expression)
    assert [address for address in on_it if not matches(address)] == []
    assert [address for address in not_on_it if matches(address)] == []


@pytest.mark.parametrize(
    "expression",
    [
        "10.1.2", "ten", "10.1.2.300", "10.1.2.3,ten", "{1,2}", "10.1.{2,3}.4,5}", "10.300.*.*", "*.1.2.3", "10.1.2.9-5",
        "10.1.2.-5", "10.1.2.5-", "10.1.2.5-256", "5::*:6", "5:*:7:6", "5::g:1-2", "5::7:1-x", "5::7:-2",
        "²0.1.2.*", f"{'9' * 5000}.1.2.*",
    ],
)  # fmt: skip
def test_invalid_addresses_are_rejected(expression: str) -> None:
    with pytest.raises(AclDenied):
        address_matcher(expression)
