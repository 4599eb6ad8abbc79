"""Faults as values: valid ones, and the errors of invalid ones."""

from typing import Any

import attrs
import pytest

from rmqlab.faults import (
    FAULTS,
    AnswerRequest,
    ClockSkew,
    DiskFull,
    Fault,
    FaultError,
    ForgedHaReport,
    Isolation,
    Latency,
    Reset,
    Slice,
    describe_fault,
    fault_of,
    fault_values,
)
from rmqlab.faults.documents import example_of
from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.specification import option
from rmqlab.faults.table import FaultTable

GIVEN: list[Fault] = [
    Latency(src="broker-a-s", dst="broker-a:master", millis=200, jitter_millis=50, only="ha"),
    Slice(src="outside", dst="broker-a", both_ways=True),
    Isolation(target="broker-a:master"),
    DiskFull(target="broker-a", bytes_left=4096),
    AnswerRequest(target="broker-a", code="SEND_MESSAGE_V2", times=3, remark="too busy"),
    ClockSkew(target="broker-a", ppm=-200),
    ForgedHaReport(target="broker-a", offset=10**12),
    *(example_of(FAULTS, kind) for kind in FAULTS.kinds),
]


def test_a_switch_is_described_by_its_name() -> None:
    forged = ForgedHaReport(target="broker-a", offset=7, repeat=True)
    assert describe_fault(fault_values(forged)) == "ha-report broker-a offset=7 repeat"


@pytest.mark.parametrize(("millis", "shown"), [(200.0, "200"), (0.5, "0.5"), (1e12, "1000000000000")])
def test_a_whole_number_is_described_without_a_fraction(millis: float, shown: str) -> None:
    step = fault_of({"type": "clock", "target": "a", "kind": "step", "millis": millis})
    assert describe_fault(fault_values(step)) == f"clock a step millis={shown}"


@pytest.mark.parametrize("fault", GIVEN, ids=lambda fault: type(fault).__name__)
def test_a_fault_round_trips_through_its_plain_values(fault: Fault) -> None:
    assert fault_of(fault_values(fault)) == fault


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "needs a type: expected one of isolate, link, disk, request, clock, ha-report"),
        ({"type": "disc"}, "no fault 'disc'.*did you mean disk?"),
        ({"type": "link", "src": "a", "dest": "b", "kind": "reset"}, "no key 'dest'.*did you mean dst?"),
        ({"type": "link", "src": "a", "kind": "reset"}, "link: needs dst"),
        ({"type": "link", "src": "a", "dst": "b"}, "link: needs a kind: expected one of blackhole, "),
        ({"type": "isolate", "target": "a", "kind": "reset"}, "isolate: no key 'kind'"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "latancy"}, "kind = 'latancy'.*did you mean latency?"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "latency"}, "kind latency needs millis"),
        (
            {"type": "link", "src": "a", "dst": "b", "kind": "blackhole", "millis": 5},
            "kind blackhole has no value millis; it takes no options",
        ),
        (
            {"type": "link", "src": "a", "dst": "b", "kind": "latency", "millis": 5, "after_bytes": 5},
            "kind latency has no value after_bytes; it takes millis, jitter_millis",
        ),
        ({"type": "link", "src": "a", "dst": "b", "kind": "latency", "millis": -1}, "millis = -1: expected at least 0"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "latency", "millis": "1 s"}, "'1 s': expected a number"),
        (
            {"type": "link", "src": "a", "dst": "b", "kind": "latency", "millis": float("nan")},
            "nan: expected a number$",
        ),
        (
            {"type": "link", "src": "a", "dst": "b", "kind": "latency", "millis": float("inf")},
            "inf: expected a number be",
        ),
        ({"type": "link", "src": "a", "dst": "b", "kind": "latency", "millis": 10**400}, "expected a number below 2"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "cut", "after_bytes": 2**63}, "expected a number below 2"),
        ({"type": "clock", "target": "a", "kind": "step", "millis": float("-inf")}, "-inf: expected a number below 2"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "l" * 10**6}, r"kind = 'l{99}\.\.\.: expected one of"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "cut", "after_bytes": 1.5}, "1.5: expected a whole number"),
        ({"type": "link", "src": "a", "dst": "b", "kind": "cut", "after_bytes": True}, "expected a whole number"),
        (
            {"type": "link", "src": "a", "dst": "b", "kind": "bandwidth", "bytes_per_second": 0},
            "bytes_per_second = 0: expected more than 0",
        ),
        ({"type": "link", "src": "a", "dst": "b", "kind": "reset", "only": "rpc"}, "only = 'rpc': expected one of rem"),
        ({"type": "disk", "target": 5, "kind": "full"}, "disk: target = 5: expected a text"),
        ({"type": "disk", "target": "a", "kind": "slow-sync"}, "kind slow-sync needs millis"),
        ({"type": "disk", "target": "a", "kind": "used", "percent": 101}, "percent = 101: expected at most 100"),
        ({"type": "request", "target": "a", "code": "SEND_MESAGE"}, "'SEND_MESAGE'.*did you mean SEND_MESSAGE?"),
        ({"type": "request", "target": "a", "code": 310, "response_code": "BUSY"}, "no response code 'BUSY'"),
        (
            {"type": "request", "target": "a", "code": 310, "kind": "drop", "remark": "x"},
            "kind drop has no value remark",
        ),
        ({"type": "ha-report", "target": "a", "offset": -1}, "offset = -1: expected at least 0"),
        ({"type": "clock", "target": "a", "kind": "skew", "ppm": 1e9}, "ppm = 1000000000: expected at most 1000000$"),
        (
            {"type": "clock", "target": "a", "kind": "step", "millis": 4e12},
            "millis = 4000000000000: expected at most 3155760000000$",
        ),
        ({"type": "clock", "target": "a", "kind": "step", "millis": -4e12}, "expected at least -3155760000000$"),
        ({"type": "disk", "target": "a", "kind": "slow-sync", "millis": 9e18}, "expected at most 2592000000$"),
        (
            {"type": "link", "src": "a", "dst": "b", "kind": "slow-reader", "read_bytes": 1, "window_bytes": 2**32},
            "window_bytes = 4294967296: expected at most 1073741824",
        ),
        ({"type": "clock", "target": "a", "kind": "step", "ppm": 5}, "kind step has no value ppm; it takes millis"),
    ],
)
def test_an_invalid_fault_is_named_with_what_was_expected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(FaultError, match=message):
        fault_of(values)


def test_codes_are_numbers_or_rocketmqs_names() -> None:
    by_name = AnswerRequest(target="a", code="send-message-v2", response_code="FLUSH_DISK_TIMEOUT")
    by_number = fault_of({"type": "request", "target": "a", "code": 310, "response_code": 10})
    assert isinstance(by_number, AnswerRequest)
    assert by_name.code_number == by_number.code_number == 310
    assert by_name.response_number == by_number.response_number == 10
    assert AnswerRequest(target="a", code="310").response_number == 2


def test_two_kinds_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="two kinds of fault are named 'link: reset'"):
        FaultTable((*FAULTS.kinds, Reset))


def test_options_of_one_name_have_one_type() -> None:
    """They are one option of the command line."""

    @attrs.frozen(kw_only=True)
    class Stall(LinkFault):
        kind = "stall"
        millis: int = option("Length of the stall.", unit="ms")

    with pytest.raises(ValueError, match="link: stall: millis has another type or flag"):
        FaultTable((*FAULTS.kinds, Stall))
