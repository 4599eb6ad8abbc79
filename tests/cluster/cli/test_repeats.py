"""Failures of workloads that repeat are folded."""

from collections.abc import Mapping
from typing import Any

import attrs

from rmqlab.cluster.cli.output.repeats import SECONDS, RepeatFolder


@attrs.define
class Output:
    """The lines of a folder, with a clock that tests move."""

    lines: list[tuple[Any, int]] = attrs.field(factory=list)
    time: float = 0.0
    folder: RepeatFolder = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.folder = RepeatFolder(self._show, lambda: self.time)

    def _show(self, event: Mapping[str, Any], times: int) -> None:
        self.lines.append((event.get("number"), times))


def failure(number: int, broker: str = "broker-a") -> dict[str, Any]:
    error = f"no response from 127.0.0.1:10911 in {number} ms"
    return {"kind": "attempt_failed", "broker": broker, "error": error, "outcome": "refused", "number": number}


def test_an_outage_of_ten_seconds_is_a_few_lines() -> None:
    output = Output()
    for number in range(130):
        output.time = number / 13
        output.folder.add(failure(number))
    output.folder.close()
    assert [number for number, _ in output.lines] == [0, 65, 129]
    assert sum(times for _, times in output.lines) == 130


def test_another_broker_is_another_failure() -> None:
    output = Output()
    for number in range(4):
        output.folder.add(failure(number, f"broker-{'ab'[number % 2]}"))
    assert output.lines == [(0, 1), (1, 1)]


def test_the_count_is_shown_after_the_outage_and_the_next_one_is_new() -> None:
    output = Output()
    for number in range(3):
        output.folder.add(failure(number))
    output.time = SECONDS
    output.folder.show_due()
    assert output.lines == [(0, 1), (2, 2)]
    output.time = 2 * SECONDS
    output.folder.show_due()
    output.folder.add(failure(9))
    assert output.lines[2:] == [(9, 1)]


def test_events_that_are_no_failure_are_always_shown() -> None:
    output = Output()
    for number in range(3):
        output.folder.add({"kind": "rebalanced", "number": number})
    assert output.lines == [(0, 1), (1, 1), (2, 1)]


def test_the_queues_of_a_broker_are_one_line() -> None:
    output = Output()
    for number in range(8):
        address = f"127.77.1.{20 + number % 2}:10911"
        output.folder.add({"kind": "pulling_from", "queue": f"q{number}", "address": address, "number": number})
    output.time = SECONDS
    output.folder.show_due()
    output.folder.close()
    assert output.lines == [(0, 1), (1, 1)]
