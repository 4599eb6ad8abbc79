"""Made-up runs for both judges: clean ones, planted ones, and their comparison."""

import pathlib
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun, write_journals
from rmqlab.pipeline.audit.audit import Summary, audit_run
from rmqlab.pipeline.audit.size import Scale
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.message import MESSAGE_MAGIC, StoredMessage, body_crc, encode_message
from rmqlab.store.queue.consumequeue import ENTRY, PRE_BLANK_SIZE
from rmqlab.verdict.findings import Brokers, Finding, Findings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqlab.cluster.checks.events import Queue

MAGIC = struct.pack(">i", MESSAGE_MAGIC)


def write_run(run: MadeUpRun, directory: pathlib.Path) -> pathlib.Path:
    """Write a made-up run as files: a journal per node, a commit log per store."""
    write_journals(run.entries, directory / "journal")
    for node, table in run.offset_files.items():
        config = directory / node / "store" / "config"
        config.mkdir(parents=True)
        (config / "consumerOffset.json").write_bytes(ConsumerOffsets(offset_table=table).encode())
    for node, copies in run.logs.items():
        if node in run.unread:
            continue
        log = directory / node / "store" / "commitlog"
        log.mkdir(parents=True)
        raw = b""
        queues: dict[Queue, bytes] = {}
        for copy in copies:
            properties = f"UNIQ_KEY\x01{copy.message_id}"
            message = StoredMessage(
                0, body_crc(b"x"), copy.queue.queue_id, 0, copy.offset, len(raw), 0, copy.stored_at, ("127.0.0.1", 1),
                copy.stored_at, _host_of(copy.queue.broker), 0, 0, b"x", copy.queue.topic, properties, {},
            )  # fmt: skip
            record = encode_message(message)
            points_at = ENTRY.pack(len(raw), len(record), 0)
            queues[copy.queue] = _with_entry(queues.get(copy.queue, b""), copy.offset, points_at)
            raw += record
        (log / f"{0:020d}").write_bytes(raw.ljust(64 * 1024, b"\0"))
        for queue, entries in queues.items():
            folder = log.parent / "consumequeue" / queue.topic / str(queue.queue_id)
            folder.mkdir(parents=True)
            (folder / f"{0:020d}").write_bytes(entries)
    return directory


def _host_of(broker: str) -> tuple[str, int]:
    """Return the address of a broker name's master."""
    ip, _, port = ADDRESSES.get(broker, "127.0.0.1:2").partition(":")
    return ip, int(port)


def _with_entry(entries: bytes, offset: int, entry: bytes) -> bytes:
    """Put an entry at a queue offset.

    Places that no record of the run has are declared empty.
    """
    missing = offset - len(entries) // len(entry)
    entries += ENTRY.pack(0, PRE_BLANK_SIZE, 0) * max(0, missing)
    return entries[: offset * len(entry)] + entry + entries[(offset + 1) * len(entry) :]


def compare(spark: "SparkSession", directory: pathlib.Path, scale: Scale | None = None) -> Summary:
    """Judge a run with both judges, which must agree, and return the audit's summary."""
    summary = audit_run(spark, directory, scale=scale)
    check_agreement(summary, directory)
    return summary


def check_agreement(summary: Summary, directory: pathlib.Path) -> None:
    """Both judges must agree on every metric that the quick checks measure."""
    quick = judge_directory(directory)
    assert differences(summary, quick) == {}
    assert summary.verdict is quick.verdict
    assert summary.judgement.conditions == quick.conditions


def differences(summary: Summary, quick: Findings) -> dict[str, str]:
    """Where the audit says something else than the quick checks, metric by metric."""
    return {
        one.metric: f"quick {_said(one)}, audit {_said(found)}"
        for one in quick
        if (found := summary.findings.get(one.metric)) is None
        or found.value != (pytest.approx(one.value) if one.value is not None else None)
        or found.is_at_least != one.is_at_least
        or _parts(found) != _parts(one)
    }


def _parts(one: Finding) -> dict[Brokers, object]:
    return {brokers: part.value for brokers, part in one.parts.items() if part.value}


def _said(one: Finding | None) -> str:
    if one is None:
        return "nothing"
    parts = {", ".join(sorted(brokers)): value for brokers, value in _parts(one).items()}
    return f"{one.value} {'or more' if one.is_at_least else ''} {one.missing} {parts or ''}".strip()


def clean_run() -> MadeUpRun:
    run = MadeUpRun()
    for number in range(12):
        run.send(number, queue_id=number % 2)
    for number in range(12):
        run.deliver(number, number // 2, queue_id=number % 2)
    run.commit(6)
    run.commit(6, queue_id=1)
    return run


def lose(run: MadeUpRun) -> None:
    run.send(100, at=())
    run.send(101, "SLAVE_NOT_AVAILABLE", at=())
    run.send(102, at=("broker-a",))


def store_twice(run: MadeUpRun) -> None:
    message = run.send(110)
    copy = run.logs["broker-a"][-1]
    run.store(message, copy.queue, ("broker-a", "broker-a-s"))
    run.deliver(110, copy.offset)
    run.deliver(110, copy.offset + 1)


def doubt(run: MadeUpRun) -> None:
    run.send(120, "indeterminate", at=("broker-a", "broker-a-s"))
    run.send(121, "refused", at=("broker-a", "broker-a-s"))
    run.send(122, "indeterminate")


def redeliver(run: MadeUpRun) -> None:
    run.deliver(0, 0, times=1)
    run.deliver(2, 1)
    run.deliver(4, 2, node="consume-2")
    run.deliver(11, 5, queue_id=1, node="consume-2")
    run.send(125, queue_id=2)
    run.deliver(125, 0, queue_id=2)
    run.deliver(125, 0, queue_id=2, node="consume-2")


def roll_back(run: MadeUpRun) -> None:
    run.commit(2)
    run.deliver(4, 2)
    run.add("broker-a-s", "consumer_offsets_overwritten", key="orders@shop", queues={"1": [6, 3]})
    run.deliver(9, 4, queue_id=1)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:0", asked=9, offered=3)


def reorder(run: MadeUpRun) -> None:
    for number in range(130, 134):
        run.send(number, queue_id=3)
    for log in run.logs.values():
        first, second = log[-2:]
        log[-2:] = [attrs.evolve(second, offset=first.offset), attrs.evolve(first, offset=second.offset)]


def outage(run: MadeUpRun) -> None:
    run.send(140)
    run.end("broker-a")
    run.drop("namesrv-1", "broker-a")
    run.wait(3)
    run.fail(141)
    run.wait(2)
    run.fail(142)
    run.add("consume-1", "pull_failed", queue="orders@broker-a:0", address="x", error="y", took=20)
    run.wait(4)
    run.ready("broker-a")
    run.send(143)
    run.deliver(143, 7)
    run.fail(144)


def lag(run: MadeUpRun) -> None:
    for second in range(5):
        run.add("broker-a", "log_sampled", max_offset=1000 * second, confirm_offset=0)
        run.add("broker-a-s", "log_sampled", max_offset=700 * second, confirm_offset=0)
        run.wait(1)


def store_unsent(run: MadeUpRun) -> None:
    """Add a client without a journal: otherwise the journals would be incomplete.

    The broker knows the client.
    """
    run.add("broker-a", "producer_joined", group="guests", client_id="10.0.0.9@1#2")
    copy = run.logs["broker-a"][-1]
    run.store("STRANGE", copy.queue, ("broker-a", "broker-a-s"))


def believe(run: MadeUpRun) -> None:
    both = {"0": ADDRESSES["broker-a"], "1": ADDRESSES["broker-a-s"]}
    run.add("produce-1", "route_believed", topic="orders", brokers={"broker-a": both})
    run.end("broker-a-s", "pause", "node_paused")
    run.wait(7)
    run.end("broker-a-s")
    run.wait(2)
    run.drop("namesrv-1", "broker-a-s")
    run.add("produce-1", "route_believed", topic="orders", brokers={"broker-a": {"0": ADDRESSES["broker-a"]}})
    run.ready("broker-a-s")
    run.drop("namesrv-1", "broker-a-s", "broker_expired")
    run.wait(11)
    run.ready("broker-a-s")
    run.add("", "fault_applied", id="f1", fault="isolate", target="broker-a:slave")
    run.wait(3)
    run.add("", "fault_healed", id="f1", fault="isolate", target="broker-a:slave")


def come_late(run: MadeUpRun) -> None:
    for number in (150, 151):
        run.send(number, queue_id=4)
    run.deliver(151, 1, queue_id=4)
    run.deliver(150, 0, queue_id=4)


def hold_pulls(run: MadeUpRun) -> None:
    """Two groups, held pulls with replies and with cut connections.

    A broker that only held is readable.
    """
    queue = "orders@broker-a:1"
    run.add("consume-1", "pull_failed", queue=queue, took=9000, held=9000)
    run.wait(1)
    run.deliver(7, 3, node="other-1", group="other", queue_id=1)
    run.add("other-1", "pull_failed", queue=queue, took=40, held=0)
    run.wait(20)
    run.add("consume-1", "pull_resumed", queue=queue, took=15_010, held=15_000, stored_at=None)
    run.add("other-1", "pull_failed", queue=queue, took=30, held=0)


def cut_off_pull(run: MadeUpRun) -> None:
    """A pull that breaks while it is held, though a message has been waiting for 3 s."""
    run.wait(14)
    queue, stored_at = "orders@broker-b:0", run.now - 3000
    for took in (14_000, 2000):
        run.add("cut-1", "pull_failed", queue=queue, took=took, held=took)
    run.wait(4)
    run.add("cut-1", "pull_resumed", queue=queue, took=5, held=0, stored_at=stored_at)


def correct(run: MadeUpRun) -> None:
    """One correction: asked for, committed, and reported by the broker.

    And one to the same offset.
    """
    run.commit(90, queue_id=7)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:7", asked=90, offered=40)
    run.commit(40, queue_id=7)
    fields = {"group": "shop", "topic": "orders", "queue_id": 7, "before": 90, "after": 40, "peer": "p"}
    run.add("broker-a", "offset_moved_back", **fields)
    run.commit(90, queue_id=7)
    run.commit(40, queue_id=7)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:7", asked=40, offered=40)


def move_clock(run: MadeUpRun) -> None:
    """A consumer's journal is 20 s behind."""
    for number in range(160, 163):
        run.send(number, queue_id=5)
        run.now -= 20_000
        run.deliver(number, number - 160, node="late-1", group="late", queue_id=5)
        run.now += 20_000


def repeat_after_commits(run: MadeUpRun) -> None:
    """The highest commit counts, not the last.

    A rollback does not reach the offset that it left.
    """
    for offset in (10, 5):
        run.commit(offset, queue_id=8)
    for _ in range(2):
        run.deliver(170, 7, queue_id=8)
    run.deliver(171, 9, queue_id=9)
    run.add("broker-a-s", "consumer_offsets_overwritten", key="orders@shop", queues={"9": [9, 2]})
    run.deliver(171, 9, queue_id=9)


def reassign_at_once(run: MadeUpRun) -> None:
    """In one millisecond: behind the delivery of a message, before that of another."""
    for number, queue_id in ((180, 20), (181, 21)):
        run.send(number, queue_id=queue_id)
    run.add("consume-1", "rebalanced", topic="orders", added=["orders@broker-a:21"], removed=[], held=[])
    run.now -= 10
    for number, queue_id in ((180, 20), (181, 21)):
        run.deliver(number, 0, queue_id=queue_id)
        run.now -= 10
    run.add("consume-1", "rebalanced", topic="orders", added=["orders@broker-a:20"], removed=[], held=[])
    for number, queue_id in ((180, 20), (181, 21)):
        run.deliver(number, 0, queue_id=queue_id)


def reset_offsets(run: MadeUpRun) -> None:
    """One repetition follows a reset, and one is too late for it."""
    run.send(175, queue_id=10)
    run.deliver(175, 0, node="reset-1", group="reset", queue_id=10)
    run.add("broker-a", "offset_reset", group="reset", topic="orders")
    run.deliver(175, 0, node="reset-1", group="reset", queue_id=10)
    run.wait(20)
    run.deliver(175, 0, node="reset-1", group="reset", queue_id=10)


def leave_attempts(run: MadeUpRun) -> None:
    """A send without an end, but stored; and an old kill before a crash."""
    run.fail(180)
    run.store("ID000180", run.logs["broker-a"][-1].queue, ("broker-a",))
    run.add("broker-a-s", "command", command="kill")
    run.ready("broker-a-s")
    run.wait(300)
    run.add("broker-a-s", "node_crashed")
    run.wait(2)
    run.drop("namesrv-1", "broker-a-s")
    run.ready("broker-a-s")


def stop(run: MadeUpRun) -> None:
    """Messages count while the cluster stops, and ends of nodes do not."""
    run.add("", "cluster_stopping")
    run.send(190, at=())
    run.end("broker-a", "stop", "node_stopped")


def cut_off(run: MadeUpRun) -> None:
    run.logs["broker-a-s"].pop()


PLANTED: list[tuple[Callable[[MadeUpRun], None], str]] = [
    (lose, "lost"),
    (lose, "lost.SLAVE_NOT_AVAILABLE"),
    (lose, "missing broker-a-s"),
    (store_twice, "stored_twice"),
    (store_twice, "duplicates.client_retry"),
    (doubt, "stored.indeterminate"),
    (doubt, "stored.refused"),
    (redeliver, "duplicates.redelivery"),
    (redeliver, "duplicates.rebalance"),
    (roll_back, "offset_rollbacks"),
    (roll_back, "duplicates.offset_rollback"),
    (roll_back, "rolled_back shop"),
    (outage, "write_unavailable broker-a"),
    (outage, "read_unavailable broker-a"),
    (outage, "detection namesrv-1"),
    (outage, "stale_route namesrv-1"),
    (believe, "stale_route produce-1"),
    (believe, "detection produce-1"),
    (believe, "missing_route namesrv-1"),
    (come_late, "order.delivered shop"),
    (lag, "replication_lag broker-a-s"),
    (store_unsent, "stored_unsent"),
    (reorder, "order.stored"),
    (hold_pulls, "group_read_unavailable shop"),
    (correct, "offset_rollbacks shop"),
    (move_clock, "clock_disagreement late-1"),
    (repeat_after_commits, "duplicates.unexplained"),
    (reassign_at_once, "duplicates.rebalance"),
    (reset_offsets, "duplicates.offset_rollback"),
    (leave_attempts, "detection namesrv-1"),
    (stop, "lost.SEND_OK"),
    (cut_off, "behind broker-a-s"),
]


def planted_run() -> MadeUpRun:
    """Return a run with every planted violation."""
    run = clean_run()
    for plant in dict(PLANTED):
        plant(run)
    return run


def wipe_and_start(run: MadeUpRun) -> None:
    """What a node stored since it was wiped is not there to be read."""
    run.send(220, at=())
    run.add("broker-a", "store_wiped", files=3)
    run.ready("broker-a")
    run.unread.add("broker-a")
