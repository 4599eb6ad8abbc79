"""Tasks that read several queues, without a broker: pulls are made up."""

from collections.abc import Callable
from typing import Any

import attrs
import pyarrow as pa
import pytest
import trio

from rmqlab.pipeline import topicreader
from rmqlab.pipeline.options import bind_options
from rmqlab.pipeline.queuecursor import Chunk, ReadError
from rmqlab.pipeline.topicbounds import DataLossError
from rmqlab.pipeline.topicoffsets import QueueName, QueueRange
from rmqlab.pipeline.topicoptions import TopicOptions
from rmqlab.pipeline.topicreader import Work, read_work
from rmqlab.remoting.message import StoredMessage, body_crc, encode_message

SCHEMA = pa.schema([("broker", pa.string()), ("queueId", pa.int32()), ("queueOffset", pa.int64())])
Row = tuple[str, int, int]


def record(queue_id: int, offset: int) -> bytes:
    body = f"{queue_id}-{offset}".encode()
    return encode_message(
        StoredMessage(
            store_size=0, body_crc=body_crc(body), queue_id=queue_id, flag=0, queue_offset=offset, physical_offset=0,
            sys_flag=0, born_timestamp=1, born_host=("127.0.0.1", 1), store_timestamp=1, store_host=("127.0.0.1", 1),
            reconsume_times=0, prepared_transaction_offset=0, body=body, topic="orders", properties_text="",
            properties={},
        )
    )  # fmt: skip


@attrs.define
class FakeCursor:
    """Returns two offsets at a time, none of which are in `missing`.

    It starts only when all cursors have started.
    """

    part: QueueRange
    missing: frozenset[int]
    waiting: trio.Event
    waits_for: list["FakeCursor"]
    breaks: bool
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
        start, end = self.position, min(self.position + 2, self.part.end)
        self.position = end
        found = [offset for offset in range(start, end) if offset not in self.missing]
        body = b"".join(record(self.part.queue.queue_id, offset) for offset in found)
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
        *ranges: tuple[str, int, int], missing: frozenset[int] = frozenset(), broken: int = -1, **options: str
    ) -> list[list[Row]]:
        cursors: list[FakeCursor] = []

        def cursor(part: QueueRange, *_: Any) -> FakeCursor:
            queue = part.queue.queue_id
            made = FakeCursor(part, missing if queue else frozenset(), trio.Event(), cursors, queue == broken)
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
    assert read(("broker-a", 0, 3), ("broker-b", 1, 2)) == [
        [("broker-a", 0, 0), ("broker-a", 0, 1), ("broker-b", 1, 0), ("broker-b", 1, 1)],
        [("broker-a", 0, 2)],
    ]


def test_a_worker_does_not_collect_what_it_has_imported(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    monkeypatch.setattr(topicreader, "freeze_imports", lambda: calls.append(None))
    read(("broker-a", 0, 3))
    assert len(calls) == 1


def test_a_hole_is_reported_for_its_queue(read: Read) -> None:
    with pytest.raises(DataLossError, match=r"orders@broker-b:1: offsets 3 to 3 are lost"):
        read(("broker-a", 0, 4), ("broker-b", 1, 4), missing=frozenset([3]))
    rows = read(("broker-a", 0, 4), ("broker-b", 1, 4), missing=frozenset([3]), failondataloss="false")
    assert sorted(offset for batch in rows for broker, _, offset in batch if broker == "broker-b") == [0, 1, 2]


def test_a_response_that_cannot_be_parsed_is_reported_for_its_queue(read: Read) -> None:
    with pytest.raises(ReadError, match=r"broker-b.*: the response to a pull from offset 0 cannot be parsed"):
        read(("broker-a", 0, 2), ("broker-b", 1, 2), ("broker-c", 2, 2), broken=1)
