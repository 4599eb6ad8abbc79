"""Read topics as a stream: the source `rocketmq` for `spark.readStream`.

A stream reads the queues of its checkpoint, and queues that appear in routes later. Each planning round requests the
end of every queue. The queues of a broker group that does not respond stay at their offsets; after `pollTimeoutMs` of
silence the stream fails, or with failOnDataLoss=false logs one warning and continues without these queues. With
Trigger.AvailableNow the round is repeated until then, so that the stream never ends early.
"""

import contextlib
import json
import logging
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import trio
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from rmqlab.client import broker_api as calls
from rmqlab.client.instance import FAILURES, Client
from rmqlab.pipeline.errors import without_traceback
from rmqlab.pipeline.options import shortened
from rmqlab.pipeline.topics import queues
from rmqlab.pipeline.topics.disconnects import exit_if_disconnected
from rmqlab.pipeline.topics.messagesizes import limited_to_bytes
from rmqlab.pipeline.topics.microbatches import BatchDelay, offsets_behind, waiting_messages, within_limit
from rmqlab.pipeline.topics.queues import AskBound, Bound
from rmqlab.pipeline.topics.silence import Silence, SilenceWatch, silences
from rmqlab.pipeline.topics.topicbounds import Bounds, DataLossError, PlanError
from rmqlab.pipeline.topics.topicoffsets import (
    LATEST,
    Offsets,
    QueueName,
    QueueRange,
    offsets_document,
    read_document,
)
from rmqlab.pipeline.topics.topicoptions import NAME, TopicOptions
from rmqlab.pipeline.topics.topicpositions import start_positions
from rmqlab.pipeline.topics.topicreader import plan_work, read_work
from rmqlab.remoting.bodies.queue import MessageQueue

log = logging.getLogger(__name__)
_COMMIT_SECONDS = 5.0
_RETRY_SECONDS = 0.5


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader. The planning process keeps one instance; tasks use copies."""

    def __init__(self, options: TopicOptions, schema: pa.Schema) -> None:
        self.options = options
        self.schema = schema
        self.bounds = Bounds(options)
        self._watch = SilenceWatch(options.poll_timeout_ms / 1000)
        self._delay = BatchDelay(options.min_offsets_per_trigger, options.max_trigger_delay_ms / 1000)
        self._complained_of: set[str] = set()
        self._is_available_now = False
        self._initial: dict[str, Any] | None = None
        self._target: dict[QueueName, Bound] | None = None
        self._latest: dict[str, Any] | None = None

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._initial is None:  # Spark calls this twice before the first batch: "latest" must not change in between
            self._initial = self._kept_initial()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self.options.max_offsets_per_trigger
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        begin = read_document(start)
        ends = self._ends(begin)
        available = self._end(begin, ends)
        end = self._limited(begin, available, limit) if self._may_begin(begin, available) else begin
        latest = {queue: max(bound.offset, available.get(queue, 0)) for queue, bound in ends.items()}
        self._latest = offsets_document(latest) | offsets_behind(end, latest)
        return offsets_document(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the ends of the queues that responded, and how far the batch is behind.

        Spark shows this in the progress of the query and uses it for nothing else.
        """
        return self._latest

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._is_available_now = True  # the first latestOffset fixes the target: it has the checkpoint

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, stop = read_document(start), read_document(end)
        self._know(begin | stop)
        ranges = [QueueRange(queue, begin.get(queue, offset), offset) for queue, offset in sorted(stop.items())]
        return plan_work(ranges, self.bounds.members, self.options)

    @without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            yield from read_work(partition.value, self.options, self.schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit progress to the group of option commitGroup, for display only.

        Spark has its own checkpoint. Failures are ignored.
        """
        if self.options.commit_group:
            self.options.link.call(self._commit, read_document(end))

    def stop(self) -> None:
        """End the process if Spark has closed its connection to it.

        Otherwise do nothing: connections belong to the process. Spark does not always call this.
        """
        exit_if_disconnected()

    # -- inside ----------------------------------------------------------------------------------

    def _kept_initial(self) -> dict[str, Any]:
        path = Path(self.options.starting_offsets_file) if self.options.starting_offsets_file else None
        if path is not None and path.exists():
            return _kept(path)
        self.bounds.look()
        commits = self.bounds.commits()
        offsets = self.bounds.resolve(start_positions(self.options, self.bounds.queues, commits, unset=LATEST))
        self.bounds.try_reading(offsets)
        initial = offsets_document(offsets)
        if path is not None:
            _keep(path, initial)
        return initial

    def _know(self, offsets: dict[QueueName, int]) -> None:
        self.bounds.queues.update(offsets)
        if not self.bounds.members:
            self.options.link.call(self.bounds.look_again)

    def _ends(self, begin: dict[QueueName, int]) -> dict[QueueName, Bound]:
        """Return the ends of queues, without those of silent brokers.

        Raises PlanError after pollTimeoutMs.
        """
        self.bounds.queues.update(begin)
        if self._target is not None:
            return self._target
        self.bounds.check_begun(begin)
        ends = self.options.link.call(self._ask, queues.max_offset, None)
        self.bounds.check_assignment()
        if self._is_available_now:
            self._target = ends
        return ends

    async def _ask(self, client: Client, ask: AskBound, of: Collection[QueueName] | None) -> dict[QueueName, Bound]:
        """Return the bounds of these queues, or of all.

        With Trigger.AvailableNow, repeats the request until all brokers respond or are overdue.
        """
        while True:
            await self.bounds.look_again(client)
            asked = self.bounds.queues if of is None else of
            gathered = await self.bounds.gather(client, ask, asked)
            silent = silences(gathered.silent) + self.bounds.absences()
            overdue = self._watch.overdue({queue.broker for queue in asked}, silent, trio.current_time())
            self._complain(overdue)
            if not self._is_available_now or len(overdue) == len(silent):
                return gathered.bounds
            await trio.sleep(_RETRY_SECONDS)

    def _complain(self, overdue: Collection[Silence]) -> None:
        """Report overdue groups: raise PlanError, or log a warning.

        The warning is logged once, if failOnDataLoss is false.
        """
        names = {one.broker for one in overdue}
        is_new = not names <= self._complained_of
        self._complained_of = names
        if not is_new:
            return
        problem = (
            f"{NAME}: silent for {self.options.poll_timeout_ms} ms (option pollTimeoutMs): "
            f"{'; '.join(map(str, overdue))}; {self.bounds.routed}"
        )
        if self.options.fail_on_data_loss:
            deleted = "" if self.bounds.members else ". If the topics were deleted, start with a new checkpoint"
            raise PlanError(
                f"{problem}{deleted}. Start the broker, or set failOnDataLoss to false to continue without its queues"
            )
        log.warning("%s. The stream continues without these queues, and reads them once their brokers respond", problem)

    def _end(self, begin: dict[QueueName, int], bounds: dict[QueueName, Bound]) -> dict[QueueName, int]:
        """Return the end of each queue in this batch.

        Queues of silent brokers stay at their start. A new queue starts at its first message. A batch without messages
        of that queue records this start in the checkpoint first: otherwise a repeated batch might start at another
        offset.
        """
        end = dict(begin)
        shrunk = []
        for queue in sorted(bounds.keys() & begin.keys()):
            end[queue] = self._end_of(queue, begin[queue], bounds[queue])
            if end[queue] < begin[queue]:
                shrunk.append(f"{queue} ends at {end[queue]}, and was read up to {begin[queue]}")
        if shrunk:
            self.bounds.warn(
                f"{NAME}: {shortened(shrunk)}: messages were lost. The stream continues there: failOnDataLoss is false"
            )
        if fresh := bounds.keys() - begin.keys():
            firsts = self.options.link.call(self._ask, queues.min_offset, fresh)
            end |= {queue: bound.offset for queue, bound in firsts.items()}
        return end

    def _may_begin(self, begin: Offsets, available: Offsets) -> bool:
        """Return False to wait for more messages, as minOffsetsPerTrigger asks.

        Trigger.AvailableNow must not wait. New queues, and new ends of queues that shrank, must get into the
        checkpoint: a shrunk queue is read from its end, so what arrives while the batch waits would be left out.
        """
        if self._is_available_now or begin.keys() != available.keys():
            return True
        if any(offset < begin[queue] for queue, offset in available.items()):
            return True
        return self._delay.is_due(waiting_messages(begin, available), time.monotonic())

    def _limited(self, begin: Offsets, available: Offsets, limit: ReadLimit) -> dict[QueueName, int]:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.max_offsets_per_trigger
        end = within_limit({**available, **begin}, available, rows) if rows else dict(available)
        return self.options.link.call(self._within_bytes, begin, end) if self.options.max_bytes_per_trigger else end

    async def _within_bytes(self, client: Client, begin: Offsets, end: Offsets) -> dict[QueueName, int]:
        limit, members, reading = self.options.max_bytes_per_trigger, self.bounds.members, self.options.reading
        return await limited_to_bytes(client, begin, end, limit, members=members, reading=reading)

    def _end_of(self, queue: QueueName, begin: int, bound: Bound) -> int:
        if bound.offset >= begin:
            return bound.offset
        if not bound.is_masters:  # a slave may lag: the messages arrive later, or the task reports them lost
            return begin
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{queue} ends at {bound.offset}, and was read up to {begin}: its master has lost messages. "
                "Set failOnDataLoss to false to continue from its new end."
            )
        return bound.offset

    async def _commit(self, client: Client, offsets: dict[QueueName, int]) -> None:
        async def commit_one(queue: QueueName, offset: int) -> None:
            addresses = self.bounds.members.get(queue.broker, {})
            target = MessageQueue(topic=client.named(queue.topic), broker_name=queue.broker, queue_id=queue.queue_id)
            for broker_id in sorted(addresses):  # the master, or the first slave if there is no master
                with contextlib.suppress(*FAILURES):
                    group = client.named(self.options.commit_group)
                    await calls.commit_offset(client, addresses[broker_id], group, target, offset)
                    return

        with trio.move_on_after(_COMMIT_SECONDS):
            async with trio.open_nursery() as nursery:
                for queue, offset in offsets.items():
                    nursery.start_soon(commit_one, queue, offset)


def _keep(path: Path, offsets: dict[str, Any]) -> None:
    """Save offsets for later starts.

    Raises PlanError if the file cannot be written.
    """
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_text(json.dumps(offsets))
        fresh.replace(path)
    except OSError as exc:
        raise PlanError(
            f"{NAME}: {path} of option startingOffsetsFile cannot be written: {exc.strerror}. Name a file in a "
            "directory that exists and is writable"
        ) from None


def _kept(path: Path) -> dict[str, Any]:
    """Return the offsets saved by an earlier start.

    Raises PlanError if they cannot be parsed.
    """
    try:
        kept: dict[str, Any] = json.loads(path.read_text())
        read_document(kept)
    except (ValueError, AttributeError, OSError, RecursionError) as exc:
        raise PlanError(f"{NAME}: {path} of option startingOffsetsFile does not hold offsets: {exc}") from None
    return kept
