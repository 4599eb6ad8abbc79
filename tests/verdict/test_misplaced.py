"""Which files of a log are not its broker's."""

from typing import Any

import attrs
import pytest

from rmqlab.store.log.logheads import LogHead
from rmqlab.verdict.misplaced import Event, RunFacts, misplaced_files, run_facts_of

A, B = "127.0.0.1:10911", "127.0.0.2:10911"
BEGAN, ENDED = 1_000_000, 2_000_000


def ready(node: str, host: str, broker: str) -> Event:
    return (BEGAN, node, "node_ready", {"address": host, "broker_name": broker})


def sampled(node: str, end: int) -> Event:
    return (BEGAN + 1, node, "log_sampled", {"max_offset": end})


STOPPED: Event = (ENDED, "", "cluster_stopped", {})
EVENTS = [ready("broker-a", A, "broker-a"), ready("broker-b", B, "broker-b"), sampled("broker-a", 0)]
OWN = LogHead("store/commitlog/0", begin=0, stated=0, host=A, stored_at=BEGAN + 500)


def why(head: LogHead, events: list[Event] = EVENTS) -> str:
    return misplaced_files("broker-a", [head], facts(events))


def facts(events: list[Event]) -> RunFacts:
    return run_facts_of(events, BEGAN)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stated": 4096}, "a record of commit log offset 4096"),
        ({"host": B}, "a record that broker-b stored (127.0.0.2:10911): it is a file of that broker"),
        ({"stored_at": BEGAN - 60_000}, "a record stored 60 s before the run: it is a file of another run"),
        ({"stored_at": ENDED + 60_000}, "a record stored 60 s after the run: it is a file of another run"),
    ],
)
def test_a_file_that_contradicts_the_run_is_named(changes: dict[str, Any], text: str) -> None:
    found = why(attrs.evolve(OWN, **changes), [*EVENTS, STOPPED])
    assert found.startswith("store/commitlog/0 begins with ")
    assert text in found


@pytest.mark.parametrize(
    ("changes", "events"),
    [
        ({}, EVENTS),
        ({"host": "127.0.0.9:10911"}, EVENTS),
        ({"host": B}, [*EVENTS, ready("broker-a", A, "broker-b")]),
        ({"host": B, "stored_at": BEGAN - 60_000}, [*EVENTS, sampled("broker-a", 1)][:2]),
        ({"stored_at": BEGAN - 60_000}, [*EVENTS[:2], sampled("broker-a", 512)]),
        ({"stored_at": BEGAN - 60_000}, [*EVENTS, ready("broker-a-s", B, "broker-a"), sampled("broker-a-s", 512)]),
        ({"stored_at": BEGAN - 60_000}, [*EVENTS, (BEGAN, "broker-a", "fault_applied", {"fault": "clock"})]),
        ({"stored_at": ENDED + 60_000}, EVENTS),
    ],
    ids=[
        "own",
        "address that nobody has in this run",
        "broker that was renamed",
        "address of an earlier run",
        "stored before the run",
        "a slave of a master that had it before the run",
        "clock fault",
        "cluster still running",
    ],
)
def test_a_file_that_may_be_its_broker_s_is_not_named(changes: dict[str, Any], events: list[Event]) -> None:
    assert why(attrs.evolve(OWN, **changes), events) == ""
