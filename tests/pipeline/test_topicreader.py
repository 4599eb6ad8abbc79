"""Tasks that read several queues, without a broker: pulls are made up."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
import trio

from rmqlab.pipeline.options import bind_options
from rmqlab.pipeline.stores.records import decode_records
from rmqlab.pipeline.stores.recordwalk import walk_many
from rmqlab.pipeline.topics import topicreader
from rmqlab.pipeline.topics.pulledrecords import PulledPart, holes, requested_records
from rmqlab.pipeline.topics.queuecursor import Chunk, ReadError
from rmqlab.pipeline.topics.queues import MAX_OFFSET
from rmqlab.pipeline.topics.topicbounds import DataLossError, PlanError
from rmqlab.pipeline.topics.topicoffsets import QueueName, QueueRange
from rmqlab.pipeline.topics.topicoptions import TopicOptions
from rmqlab.pipeline.topics.topicreader import Work, plan_work, read_work
from rmqlab.remoting.message import StoredMessage, body_crc, encode_message

SCHEMA = pa.schema([("broker", pa.string()), ("queueId", pa.int32()), ("queueOffset", pa.int64())])
Row = tuple[str, int, int]


def record(queue_id: int, offset: int, topic: str = "orders") -> bytes:
    body = f"{queue_id}-{offset}".encode()
    return encode_message(
        StoredMessage(
            store_size=0, body_crc=body_crc(body), queue_id=queue_id, flag=0, queue_offset=offset, physical_offset=0,
            sys_flag=0, born_timestamp=1, born_host=("127.0.0.1", 1), store_timestamp=1, store_host=("127.0.0.1", 1),
            reconsume_times=0, prepared_transaction_offset=0, body=body, topic=topic, properties_text="",
            properties={},
        )
    )  # fmt: skip


@attrs.define(eq=False)
class FakeCursor:
    """Returns `step` offsets at a time, none of which are in `missing`.

    It starts only when all cursors have started.
    """

    part: QueueRange
    missing: frozenset[int]
    waiting: trio.Event
    waits_for: list["FakeCursor"]
    breaks: bool
    replaced: Mapping[int, bytes]
    """Records that are returned instead of those at some offsets."""
    step: int
    position: int = 0

    @property
    def is_done(self) -> bool:
        return self.position >= self.part.end

    async def next(self, _: Any, enough_bytes: int) -> Chunk:
        assert enough_bytes > 0
        self.waiting.set()
        with trio.fail_after(60):
            for other in self.waits_for:
                await other.waiting.wait()
        start, end = self.position, min(self.position + self.step, self.part.end)
        self.position = end
        found = [offset for offset in range(start, end) if offset not in self.missing]
        queue_id = self.part.queue.queue_id
        body = b"".join(self.replaced.get(offset, record(queue_id, offset)) for offset in found)
        return Chunk(start, end, [body[:-1] if self.breaks else body])


Read = Callable[..., list[list[Row]]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Reads these ranges, of (broker, queue, messages), into rows of batches."""

    monkeypatch.setattr(topicreader, "freeze_imports", lambda: None)  # not of the process of all tests

    class Link:
        @staticmethod
        def call(fn: Callable[..., Any], *args: Any) -> Any:
            return trio.run(fn, None, *args)

    def read(
        *ranges: tuple[str, int, int],
        missing: frozenset[int] = frozenset(),
        broken: int = -1,
        replaced: Mapping[int, bytes] | None = None,
        step: int = 2,
        **options: str,
    ) -> list[list[Row]]:
        cursors: list[FakeCursor] = []

        def cursor(part: QueueRange, *_: Any) -> FakeCursor:
            queue = part.queue.queue_id
            made = FakeCursor(
                part, missing if queue else frozenset(), trio.Event(), cursors, queue == broken, replaced or {}, step
            )
            if part.size:
                cursors.append(made)
            return made

        monkeypatch.setattr(topicreader, "QueueCursor", cursor)
        monkeypatch.setattr(TopicOptions, "link", Link())
        bound = bind_options(TopicOptions, {"nameserver": "a:1", "topic": "orders"} | options, source="rocketmq")
        parts = tuple(QueueRange(QueueName("orders", broker, queue), 0, end) for broker, queue, end in ranges)
        batches = list(read_work(Work(parts, {}), bound, SCHEMA))
        return [[tuple(row.values()) for row in batch.to_pylist()] for batch in batches]

    return read


def test_queues_of_a_task_are_read_concurrently_into_common_batches(read: Read) -> None:
    assert read(("broker-a", 0, 3), ("broker-b", 1, 2), ("broker-c", 2, 0), ("broker-c", 3, 1)) == [
        [("broker-a", 0, 0), ("broker-a", 0, 1)],
        [("broker-a", 0, 2), ("broker-b", 1, 0), ("broker-b", 1, 1), ("broker-c", 3, 0)],
    ]


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_the_order_of_rows_does_not_depend_on_how_much_a_broker_returns(read: Read, step: int) -> None:
    """A writer numbers the rows of a task: a repeated task has to number them equally."""
    ranges = [("broker-a", 0, 5), ("broker-b", 1, 7), ("broker-c", 2, 3)]
    rows = [row for batch in read(*ranges, step=step) for row in batch]
    assert rows == [(broker, queue, offset) for broker, queue, end in ranges for offset in range(end)]


@pytest.mark.parametrize(("room", "asked"), [(2**20, [2] * 5), (1, [2] + [1] * 8)])
def test_later_ranges_are_read_on_while_they_wait(
    read: Read, monkeypatch: pytest.MonkeyPatch, room: int, asked: list[int]
) -> None:
    """One range after the other would be read from one broker at a time."""
    next_chunks, rounds = topicreader._next_chunks, []

    async def counted(client: Any, cursors: Sequence[Any]) -> Any:
        rounds.append(len(cursors))
        return await next_chunks(client, cursors)

    monkeypatch.setattr(topicreader, "_next_chunks", counted)
    monkeypatch.setattr(topicreader, "_WAITING_BYTES", room)
    rows = [row for batch in read(("broker-a", 0, 10), ("broker-b", 1, 10)) for row in batch]
    assert rows == [(broker, queue, at) for broker, queue in (("broker-a", 0), ("broker-b", 1)) for at in range(10)]
    assert rounds == asked


def test_a_worker_does_not_collect_what_it_has_imported(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    monkeypatch.setattr(topicreader, "freeze_imports", lambda: calls.append(None))
    read(("broker-a", 0, 3))
    assert len(calls) == 1


def test_a_hole_is_reported_for_its_queue(read: Read, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLossError, match=r"orders@broker-b:1: offsets 3 to 3 are lost"):
        read(("broker-a", 0, 4), ("broker-b", 1, 4), missing=frozenset([3]))
    assert not caplog.records
    rows = read(("broker-a", 0, 4), ("broker-b", 1, 4), missing=frozenset([3]), failondataloss="false")
    (warning,) = caplog.records
    assert warning.getMessage() == (
        "rocketmq: orders@broker-b:1: offsets 3 to 3 are lost: the broker skips 1 of them. "
        "They are left out, because failOnDataLoss is false"
    )
    assert sorted(offset for batch in rows for broker, _, offset in batch if broker == "broker-b") == [0, 1, 2]


def test_a_response_that_cannot_be_parsed_is_reported_for_its_queue(read: Read) -> None:
    with pytest.raises(ReadError, match=r"broker-b.*: the response to a pull from offset 0 cannot be parsed"):
        read(("broker-a", 0, 2), ("broker-b", 1, 2), ("broker-c", 2, 2), broken=1)


@pytest.mark.parametrize(
    "other",
    [record(0, 3), record(0, 5), record(7, 2), record(0, 2, "others")],
    ids=["next offset", "later offset", "another queue", "another topic"],
)
def test_a_record_of_another_place_does_not_hide_a_loss(read: Read, other: bytes) -> None:
    """An entry of the broker's queue points at another record.

    It is of a later offset, another queue or another topic.
    """
    with pytest.raises(DataLossError, match=r"orders@broker-a:0: offsets 2 to 2 are lost: the broker skips 1 of them"):
        read(("broker-a", 0, 6), replaced={2: other})
    rows = read(("broker-a", 0, 6), replaced={2: other}, failondataloss="false")
    assert [offset for batch in rows for _, _, offset in batch] == [0, 1, 3, 4, 5]


def test_a_record_of_another_place_is_reported_although_a_filter_may_exclude_it(read: Read) -> None:
    with pytest.raises(DataLossError, match=r"orders@broker-a:0: offsets 2 to 3 are lost: the broker returned wrong"):
        read(("broker-a", 0, 6), replaced={2: record(7, 2)}, sqlexpression="a = 1")


def test_a_record_is_returned_once_although_the_broker_repeats_it(read: Read) -> None:
    twice = record(0, 2) + record(0, 3)
    assert [offset for batch in read(("broker-a", 0, 6), replaced={2: twice}) for _, _, offset in batch] == [*range(6)]


def test_a_namespace_is_part_of_the_topic_of_a_record(read: Read) -> None:
    with pytest.raises(DataLossError, match="the broker skips 1 of them"):
        read(("broker-a", 0, 1), namespace="NS")
    assert read(("broker-a", 0, 1), namespace="NS", replaced={0: record(0, 0, "NS%orders")}) == [[("broker-a", 0, 0)]]


def test_a_response_that_claims_to_skip_without_bound_is_a_loss() -> None:
    part = PulledPart(QueueName("orders", "broker-a", 0), 5, MAX_OFFSET)
    raw = memoryview(record(0, 5) + record(0, 7) + record(0, MAX_OFFSET - 1))
    records, _ = decode_records(raw, walk_many(raw, 0, len(raw))[0])
    keep, strays = requested_records([part], records, np.zeros(3, np.int64), "")
    assert (keep.all(), strays) == (True, [])
    (loss,) = holes([part], records, np.zeros(3, np.int64))
    assert (loss.start, loss.end) == (6, MAX_OFFSET - 1)


def test_an_empty_response_with_success_is_a_loss(read: Read) -> None:
    with pytest.raises(DataLossError, match="offsets 0 to 1 are lost"):
        read(("broker-a", 0, 2), missing=frozenset([0, 1]), replaced={0: b"", 1: b""})


@pytest.mark.parametrize("option", ["minpartitions", "maxrecordsperpartition"])
def test_a_plan_of_too_many_tasks_is_an_error_that_names_the_option(option: str) -> None:
    """A broker may claim that a queue ends anywhere."""
    value = {"minpartitions": "1000000000", "maxrecordsperpartition": "1000"}[option]
    options = bind_options(TopicOptions, {"nameserver": "a:1", "topic": "orders", option: value}, source="rocketmq")
    part = QueueRange(QueueName("orders", "broker-a", 0), 0, MAX_OFFSET)
    with pytest.raises(PlanError, match=rf"(?i)option {option} asks for \d+ tasks for {MAX_OFFSET} messages: at most"):
        plan_work([part], {}, options)
    assert len(plan_work([QueueRange(part.queue, 0, 3000)], {}, options)) == 3000 if "min" in option else 3
