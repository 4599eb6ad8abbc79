"""How far a consumer has got, and where that is kept: at brokers, or in a file of its own.

Sources: store-and-ha sections 6.5 and 6.7; classes RemoteBrokerOffsetStore, LocalFileOffsetStore.
"""

import logging
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from client import calls
from client.instance import FAILURES, Client
from client.routes import BrokerAddress
from remoting.bodies.offset import ResetOffsetBody
from remoting.bodies.queue import MessageQueue

log = logging.getLogger(__name__)

OnEvent = Callable[..., None]
"""Called with the kind of an event, and with its fields by name."""


class Offsets(Protocol):
    """Offsets of one group in this client's queues: the next message that is not yet consumed."""

    def peek(self, queue: MessageQueue) -> int | None:
        """What `commit` would write."""

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Take note of progress; `commit` makes it last."""

    def forget(self, queue: MessageQueue) -> None:
        """The queue is somebody else's now."""

    async def committed(self, queue: MessageQueue) -> int | None:
        """Where the group stood when it was last written down. Errors as calls.query_offset."""

    async def commit(self, queues: Iterable[MessageQueue]) -> None:
        """Write down the progress in these queues. Failures are logged: the next round tries again."""


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
    """Kept by brokers: the master, or while there is none any slave, whose knowledge the master never gets.

    Every commit writes all offsets, changed or not: a master that comes back with old ones is corrected within
    one period by consumers that stayed alive (section 6.7, point 4).
    """

    def __init__(self, client: Client, group: str, on_event: OnEvent) -> None:
        super().__init__()
        self._client = client
        self._group = group
        self._on_event = on_event
        self._targets = dict[str, BrokerAddress]()

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
                await self._client.try_refresh(its_queues[0].topic)  # perhaps it is known to be gone

    async def _commit_to(self, broker_name: str, queues: list[MessageQueue]) -> None:
        target = await calls.broker_of(self._client, queues[0])
        for queue in queues:
            offset = self._offsets[queue]
            await calls.commit_offset(self._client, target.address, self._group, queue, offset)
            self._on_event(
                "committed",
                group=self._group,
                topic=queue.topic,
                broker=broker_name,
                queue=queue.queue_id,
                offset=offset,
                broker_id=target.broker_id,
            )
        if self._targets.get(broker_name) != target:
            self._targets[broker_name] = target
            self._on_event("committing_to", broker_name=broker_name, broker_id=target.broker_id, address=target.address)


class LocalOffsets(_Table):
    """Kept in a file, or only in memory: every broadcasting consumer has its own progress."""

    def __init__(self, path: pathlib.Path | None) -> None:
        super().__init__()
        self._path = path
        self._written: dict[MessageQueue, int] = {}
        if path is not None and path.exists():
            self._written = dict(ResetOffsetBody.decode(path.read_bytes()).offset_table)

    async def committed(self, queue: MessageQueue) -> int | None:
        return self._written.get(queue)

    async def commit(self, queues: Iterable[MessageQueue]) -> None:
        self._written.update({queue: self._offsets[queue] for queue in queues if queue in self._offsets})
        if self._path is not None:
            new = self._path.with_suffix(".new")
            new.write_bytes(ResetOffsetBody(offset_table=self._written).encode())
            new.replace(self._path)


def no_event(_kind: str, **_fields: Any) -> None:
    """Nobody listens."""
