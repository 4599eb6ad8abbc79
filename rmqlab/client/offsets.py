"""Offsets of a consumer, kept at brokers or in a local file.

Sources: store-and-ha sections 6.5 and 6.7; classes RemoteBrokerOffsetStore, LocalFileOffsetStore.
"""

import logging
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from rmqlab.client import broker_api as calls
from rmqlab.client.config import ConsumerConfig
from rmqlab.client.errors import OffsetFileError
from rmqlab.client.instance import FAILURES, Client
from rmqlab.client.routes import BrokerAddress
from rmqlab.remoting.bodies.heartbeat import MessageModel
from rmqlab.remoting.bodies.offset import ResetOffsetBody
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.body import BodyError
from rmqlab.runtime.regularfile import read_regular

log = logging.getLogger(__name__)

OnEvent = Callable[..., None]
"""Called with the kind of an event, and with its fields by name."""


class Offsets(Protocol):
    """Offsets of one group in this client's queues: the next message to consume."""

    def peek(self, queue: MessageQueue) -> int | None:
        """Return the offsets that `commit` would write."""

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Update an offset in memory; `commit` saves it."""

    def forget(self, queue: MessageQueue) -> None:
        """Drop a queue that another member has now."""

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the last saved offset of the group. Errors as broker_api.query_offset."""

    async def commit(self, queues: Iterable[MessageQueue]) -> None:
        """Save the offsets of these queues.

        Failures are logged; the next commit retries.
        """

    def note_commit(self, queue: MessageQueue, target: BrokerAddress, offset: int) -> None:
        """Record an offset that is being sent to a broker with another request."""


class _Table:
    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def peek(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        if not increase_only or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)


class BrokerOffsets(_Table):
    """Offsets at brokers: the master, or any slave in its absence.

    The master never gets a slave's offsets.

    Every commit writes all offsets, changed or not: a master that returns with old ones is corrected within
    one period by consumers that stayed alive (section 6.7, point 4).
    """

    def __init__(self, client: Client, group: str, on_event: OnEvent) -> None:
        super().__init__()
        self._client = client
        self._group = group
        self._on_event = on_event
        self._targets = dict[str, BrokerAddress]()
        self._reported = dict[MessageQueue, tuple[BrokerAddress, int]]()

    def note_commit(self, queue: MessageQueue, target: BrokerAddress, offset: int) -> None:
        """Record a commit that is sent with a pull.

        Most pulls repeat the last one: those leave no event.
        """
        if self._reported.get(queue) != (target, offset):
            self._reported[queue] = (target, offset)
            self._report_target(queue, target, offset)

    def _report_target(self, queue: MessageQueue, target: BrokerAddress, offset: int) -> None:
        self._on_event(
            "committed",
            group=self._group,
            topic=queue.topic,
            broker=queue.broker_name,
            queue=queue.queue_id,
            offset=offset,
            broker_id=target.broker_id,
        )

    def forget(self, queue: MessageQueue) -> None:
        super().forget(queue)
        self._reported.pop(queue, None)

    async def committed(self, queue: MessageQueue) -> int | None:
        return await calls.query_offset(self._client, self._group, queue)

    async def commit(self, queues: Iterable[MessageQueue]) -> None:
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            if queue in self._offsets:
                by_broker.setdefault(queue.broker_name, []).append(queue)
        for broker_name, its_queues in by_broker.items():
            try:
                await self._commit_to(broker_name, its_queues)
            except FAILURES as exc:
                log.warning("offsets of %s not committed: %s", self._group, exc)
                self._on_event("commit_failed", broker_name=broker_name, error=str(exc))
                await self._client.try_refresh(its_queues[0].topic)  # the broker may have left the route

    async def _commit_to(self, broker_name: str, queues: list[MessageQueue]) -> None:
        target = await calls.broker_of(self._client, queues[0])
        for queue in queues:
            channel = await self._client.remoting.channel(target.address)
            # No checkpoint from here: a pull of this queue could commit a newer offset before an older one is sent.
            if (offset := self._offsets.get(queue)) is None:
                continue  # another member was assigned the queue during the connect
            calls.send_commit(channel, self._client, self._group, queue, offset)
            self._reported[queue] = (target, offset)
            self._report_target(queue, target, offset)
        if self._targets.get(broker_name) != target:
            self._targets[broker_name] = target
            self._on_event("committing_to", broker_name=broker_name, broker_id=target.broker_id, address=target.address)


class LocalOffsets(_Table):
    """Offsets of a broadcasting consumer, kept in a file or only in memory.

    Every broadcasting consumer has its own progress. The file is that of Java's client
    (`~/.rocketmq_offsets/<client id>/<group>/offsets.json`): either reads the other's. The state before the last write
    stays in `offsets.json.bak`, and is read if the file is damaged.
    """

    def __init__(self, path: pathlib.Path | None) -> None:
        super().__init__()
        self._path = path
        self._known = {} if path is None else _read(path)
        self._is_written = True

    async def committed(self, queue: MessageQueue) -> int | None:
        return self._known.get(queue)

    def note_commit(self, queue: MessageQueue, target: BrokerAddress, offset: int) -> None:
        """Do nothing: no broker gets these offsets."""

    async def commit(self, queues: Iterable[MessageQueue]) -> None:
        progress = {queue: self._offsets[queue] for queue in queues if queue in self._offsets}
        if self._is_written and progress.items() <= self._known.items():
            return
        self._known.update(progress)
        if self._path is not None:
            try:
                _write(self._path, self._known)
            except OSError as exc:
                self._is_written = False
                log.warning("offsets not written to %s: %s", self._path, exc)
            else:
                self._is_written = True


def offsets_of(client: Client, group: str, config: ConsumerConfig, on_event: OnEvent) -> Offsets:
    """Return the offsets of a consumer.

    They are its own if it broadcasts, else those of its group.
    """
    if config.model is MessageModel.BROADCASTING:
        return LocalOffsets(config.local_offsets)
    return BrokerOffsets(client, group, on_event)


def _backup(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + ".bak")


def _read(path: pathlib.Path) -> dict[MessageQueue, int]:
    """Read the file, or its backup if it is missing or damaged.

    OffsetFileError if neither can be read.
    """
    problem: Exception | None = None
    for candidate in (path, _backup(path)):
        try:
            content = read_regular(candidate)
            if content.strip():
                return dict(ResetOffsetBody.decode(content).offset_table)
        except FileNotFoundError:
            continue
        except (OSError, BodyError) as exc:
            log.warning("offset file %s: %s", candidate, exc)
            problem = problem or exc
    if problem is not None:
        raise OffsetFileError(f"{path} holds no offsets, nor does its .bak: {problem}")
    return {}


def _write(path: pathlib.Path, offsets: dict[MessageQueue, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".tmp")
    new.write_bytes(ResetOffsetBody(offset_table=offsets).encode())
    if path.exists():
        path.replace(_backup(path))
    new.replace(path)


def no_event(_kind: str, **_fields: Any) -> None:
    """Ignore an event."""
