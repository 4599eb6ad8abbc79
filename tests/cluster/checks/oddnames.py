"""Names that RocketMQ rejects, in every event that has one."""

from collections.abc import Iterator
from typing import Any, Final

from rmqlab.runtime.journals.journalentry import JournalEntry

NAMES: Final = (
    "", " ", "a\nb", "a\n", "\x00", "\x1b[31m", "x" * 5000, "ü²\u202e", "a@b", "a:b", "a,b", "a'b", "%RETRY%shop", "..",
    "shop:0", "orders@shop",
)  # fmt: skip
_PLACE: Final = {"topic": "orders", "broker": "broker-a", "queue": 0}


def named_entries() -> Iterator[tuple[str, JournalEntry]]:
    """Yield process and entry for each event with each name."""
    for nth, name in enumerate(NAMES):
        for entry in (*_of_messages(nth, name), *_of_offsets(name), *_of_queues(nth, name)):
            yield entry.node, entry


def _of_messages(nth: int, name: str) -> Iterator[JournalEntry]:
    """Yield sends, attempts, repeated deliveries, and commits that go back."""
    for field in ("group", "topic", "broker", "message_id"):
        fields: dict[str, Any] = {**_PLACE, "group": f"g{nth}{field}", "message_id": f"N{nth}{field}", field: name}
        for offset in (0, 7, 5, 5):
            yield _entry("consume-1", "delivered", **{**fields, "offset": offset})
        for offset in (9, 4):
            yield _entry("consume-1", "committed", **{**fields, "offset": offset})
        yield _entry("produce-1", "sent", **fields, offset=0, outcome="SEND_OK", number=nth, began_at=0)
        yield _entry("produce-1", "attempt_failed", **fields, took=5)


def _of_offsets(name: str) -> Iterator[JournalEntry]:
    moved = {"queue_id": 0, "before": 9, "after": 3, "peer": "p"}
    yield _entry("broker-a", "offset_moved_back", group=name, topic="orders", **moved)
    yield _entry("broker-a", "offset_moved_back", group="shop", topic=name, **moved)
    for key in (f"{name}@shop", f"orders@{name}"):
        yield _entry("broker-a-s", "consumer_offsets_overwritten", key=key, queues={0: [9, 3]})
    yield _entry("broker-a", "offset_reset", group=name, topic="orders")
    yield _entry("broker-a", "group_deleted", group=f"{name}-2")


def _of_queues(nth: int, name: str) -> Iterator[JournalEntry]:
    queues = (f"{name}@broker-a:0", f"orders@{name}:0", f"orders@broker-a:0{name}", name)
    for place, queue in enumerate(queues):
        yield _entry("consume-1", "offset_illegal", queue=queue, asked=9, offered=3)
        for kind in ("pull_failed", "pull_resumed"):
            yield _entry("consume-1", kind, queue=queue, took=5, held=0)
        yield _entry("consume-1", "rebalanced", topic="orders", added=[queue], removed=[])
        held = {**_PLACE, "message_id": f"H{nth}-{place}", "held_in": queue.partition("@")[2]}
        yield _entry("produce-1", "sent", **held, offset=0, outcome="SEND_OK", number=0, began_at=0)
    yield _entry("consume-1", "route_believed", topic=name, brokers={"broker-a": {"0": "127.77.1.20:10911"}})


def _entry(node: str, kind: str, **fields: Any) -> JournalEntry:
    return JournalEntry(0, node, kind, fields)
