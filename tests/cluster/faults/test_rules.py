"""Faults as values: what makes sense, and what is said of what does not."""

from typing import Any

import pytest

from rmqlab.cluster.faults.rules import (
    ClockFault,
    DiskFault,
    Fault,
    FaultError,
    HaReportFault,
    Isolation,
    LinkFault,
    RequestFault,
    fault_of,
    fault_values,
)

FAULTS: list[Fault] = [
    LinkFault(src="broker-a-s", dst="broker-a:master", kind="latency", millis=200, jitter_millis=50, only="ha"),
    LinkFault(src="outside", dst="broker-a", kind="slice", both_ways=True),
    Isolation(target="broker-a:master"),
    DiskFault(target="broker-a", kind="full", bytes_left=4096),
    RequestFault(target="broker-a", code="SEND_MESSAGE_V2", times=3, remark="too busy"),
    ClockFault(target="broker-a", kind="skew", ppm=-200),
    HaReportFault(target="broker-a", offset=10**12),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_fault_is_its_plain_values_and_comes_back_from_them(fault: Fault) -> None:
    assert fault_of(fault_values(fault)) == fault


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "needs a type: expected one of link, isolate, disk, request, clock, ha-report"),
        ({"type": "disc"}, "no fault 'disc'.*did you mean disk?"),
        ({"type": "link", "src": "a", "dest": "b", "kind": "reset"}, "no key 'dest'.*did you mean dst?"),
        ({"type": "link", "src": "a", "kind": "reset"}, "link: needs dst"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "latancy"}, "kind = 'latancy'.*did you mean latency?"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "latency"}, "kind latency needs millis"),
        (
            {"type": "link", "src": "a", "dst": "b", "kind": "blackhole", "millis": 5},
            "millis means nothing to kind blackhole; it takes no options",
        ),
        (
            {"type": "link", "src": "a", "dst": "b", "kind": "latency", "millis": 5, "after_bytes": 5},
            "after_bytes means nothing to kind latency; it takes millis, jitter_millis",
        ),
        ({"type": "link", "src": "a", "dst": "b", "kind": "latency", "millis": -1}, "millis = -1: expected at least 0"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "latency", "millis": "1 s"}, "'1 s': expected a number"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "cut", "after_bytes": 1.5}, "1.5: expected a whole number"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "cut", "after_bytes": True}, "expected a whole number"),
        (
            {"type": "link", "src": "a", "dst": "b", "kind": "bandwidth", "bytes_per_second": 0},
            "bytes_per_second = 0: expected more than 0",
        ),
        ({"type": "link", "src": "a", "dst": "b", "kind": "reset", "only": "rpc"}, "only = 'rpc': expected one of rem"),
        ({"type": "disk", "target": "a", "kind": "slow-sync"}, "kind slow-sync needs millis"),
        ({"type": "disk", "target": "a", "kind": "used", "percent": 101}, "percent = 101: expected at most 100"),
        ({"type": "request", "target": "a", "code": "SEND_MESAGE"}, "'SEND_MESAGE'.*did you mean SEND_MESSAGE?"),
        ({"type": "request", "target": "a", "code": 310, "response_code": "BUSY"}, "no response code 'BUSY'"),
        ({"type": "request", "target": "a", "code": 310, "kind": "drop", "remark": "x"}, "remark means nothing"),
        ({"type": "clock", "target": "a", "kind": "step", "ppm": 5}, "ppm means nothing to kind step; it takes millis"),
    ],
)
def test_what_makes_no_sense_is_named_with_what_is_expected(values: dict[str, Any], told: str) -> None:
    with pytest.raises(FaultError, match=told):
        fault_of(values)


def test_codes_are_numbers_or_rocketmqs_names() -> None:
    by_name = RequestFault(target="a", code="send-message-v2", response_code="FLUSH_DISK_TIMEOUT")
    by_number = fault_of({"type": "request", "target": "a", "code": 310, "response_code": 10})
    assert isinstance(by_number, RequestFault)
    assert by_name.code_number == by_number.code_number == 310
    assert by_name.response_number == by_number.response_number == 10
    assert RequestFault(target="a", code="310").response_number == 2
