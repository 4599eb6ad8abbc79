"""Runs in which a master holds back delayed or half messages.

For both judges, with the number of messages that are overdue.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.remoting.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_GROUP,
)
from tests.cluster.plant.smallrun import write_run

HELD = "ID000007"
REAL_TOPIC = "reminders"
LONG = 200.0
"""Seconds after which each held message is overdue: a half message has 66 s, and a minute more."""


def _nothing(_: MadeUpRun) -> None: ...


@attrs.frozen(kw_only=True)
class HeldRun:
    """A run, and what `overdue` must be."""

    topics: tuple[str, ...]
    """Of the records of the message, 1 s after each other; the offset of a half message for a record that ends it."""
    waited: float = LONG
    """Seconds from the last record to the end."""
    then: Callable[[MadeUpRun], object] = _nothing
    """What happens before the last 5 s."""
    delay_offset: int = 0
    half_offset: int = 0
    """Saved progress in the queue of half messages."""
    value: int | None = 0
    words: str = ""
    """Part of the evidence, or of what is missing."""

    def write(self, directory: Path) -> Path:
        """Write it as a directory."""
        run = MadeUpRun()
        run.send(1)
        run.send(7, "indeterminate", topic=REAL_TOPIC)
        for topic in self.topics:
            if topic.isdecimal():
                run.store(topic, Queue(OP_HALF_TOPIC, "broker-a", 0), run.logs)
            else:
                run.store(HELD, Queue(topic, "broker-a", 0), run.logs)
            run.wait(1)
        run.wait(self.waited - 6)
        self.then(run)
        run.wait(5)
        run.send(2)
        write_run(run, directory)
        halves = {f"{HALF_TOPIC}@{TRANSACTION_GROUP}": {0: self.half_offset}}
        for node in run.logs:
            config = directory / node / "store" / "config"
            (config / "delayOffset.json").write_bytes(DelayOffsets(offset_table={1: self.delay_offset}).encode())
            (config / "consumerOffset.json").write_bytes(ConsumerOffsets(offset_table=halves).encode())
        return directory


def _added(node: str, kind: str, **fields: Any) -> Callable[[MadeUpRun], object]:
    return lambda run: run.add(node, kind, **fields)


def _restart(node: str) -> Callable[[MadeUpRun], object]:
    def restart(run: MadeUpRun) -> None:
        run.end(node)
        run.ready(node)

    return restart


_DELAYED, _HALF = (SCHEDULE_TOPIC,), (HALF_TOPIC,)
_RECEIVED = {"message_id": HELD, "topic": REAL_TOPIC, "group": "shop", "broker": "broker-a", "queue": 0, "offset": 0}
_CLOCK = {"id": "f1", "fault": "clock", "target": "broker-a"}

HELD_RUNS: Mapping[str, HeldRun] = {
    "delayed, long due": HeldRun(topics=_DELAYED, value=1, words=" ms overdue"),
    "delayed, just due": HeldRun(topics=_DELAYED, waited=50),
    "delayed and delivered": HeldRun(topics=(SCHEDULE_TOPIC, REAL_TOPIC), delay_offset=1),
    "delayed, delivered and delayed again": HeldRun(topics=(SCHEDULE_TOPIC, REAL_TOPIC, SCHEDULE_TOPIC), value=1),
    "delayed and passed by": HeldRun(
        topics=_DELAYED,
        waited=10,
        delay_offset=1,
        value=1,
        words="SCHEDULE_TOPIC_XXXX@broker-a:0 has passed by offset 0",
    ),
    "delayed, and received from a log that is gone": HeldRun(
        topics=_DELAYED, then=_added("consume-1", "delivered", **_RECEIVED)
    ),
    "delayed, and its master just started": HeldRun(topics=_DELAYED, then=_restart("broker-a")),
    "delayed, and its slave just started": HeldRun(topics=_DELAYED, then=_restart("broker-a-s"), value=1),
    "delayed, and its master just resumed": HeldRun(topics=_DELAYED, then=_added("broker-a", "node_resumed")),
    "delayed, and its master's clock was set": HeldRun(
        topics=_DELAYED,
        then=_added("", "fault_applied", **_CLOCK),
        value=None,
        words="a fault set the clock of broker-a",
    ),
    "half, long waiting": HeldRun(topics=_HALF, value=1, words=" ms overdue"),
    "half, not yet checked": HeldRun(topics=_HALF, waited=100),
    "half and passed by": HeldRun(
        topics=_HALF,
        waited=10,
        half_offset=1,
        value=1,
        words="RMQ_SYS_TRANS_HALF_TOPIC@broker-a:0 has passed by offset 0",
    ),
    "half and committed": HeldRun(topics=(HALF_TOPIC, REAL_TOPIC, "0"), half_offset=1),
    "half, committed with a delay and overdue": HeldRun(topics=(HALF_TOPIC, SCHEDULE_TOPIC, "0"), value=1),
    "half and rolled back": HeldRun(topics=(HALF_TOPIC, "0"), half_offset=1),
    "half, and another one was rolled back": HeldRun(topics=(HALF_TOPIC, "1"), value=1),
    "half, checked in time": HeldRun(topics=(*_HALF * 2,), waited=60),
    "half, checked once and forgotten": HeldRun(topics=(*_HALF * 2,), value=1),
    "half, checked and rolled back": HeldRun(topics=(*_HALF * 2, "1")),
    "half and given up": HeldRun(topics=(HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC), half_offset=1),
    "half, and its broker lost records": HeldRun(topics=_HALF, then=_added("broker-a", "log_truncated")),
    "half, and settings of transactions changed": HeldRun(
        topics=_HALF,
        then=_added("broker-a", "settings_changed", changes={"transactionTimeOut": 10**7}),
        value=None,
        words="brokers had different settings of transactions",
    ),
}
"""By what became of the message."""
