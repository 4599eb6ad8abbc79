"""The queues assigned to a consumer: how it acquires, releases and moves them.

Sources: classes RebalanceImpl, RebalancePushImpl.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn

import attrs
import trio

from rmqlab.client import broker_api as calls
from rmqlab.client import orderly, rebalance
from rmqlab.client.consuming import Consumption
from rmqlab.client.instance import FAILURES
from rmqlab.client.limited import for_each
from rmqlab.client.processqueue import ProcessQueue
from rmqlab.client.pulling import Assignment, Group, QueuePuller
from rmqlab.client.routes import subscribe_queues
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere, MessageModel
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.runtime.net.remoting_errors import ConnectError, RequestTimeoutError

log = logging.getLogger(__name__)

HALF_AN_HOUR_MILLIS = 30 * 60 * 1000


@attrs.define(eq=False)
class Assignments:
    """Queues by name, each with its pull loop in the consumer's nursery."""

    group: Group
    consumption: Consumption
    started_at: int
    """Milliseconds."""
    nursery: trio.Nursery
    held: dict[MessageQueue, Assignment]
    """Shared with the consumer, which commits and reports these queues."""
    sends_subscription: bool = False
    """As that of QueuePuller."""
    due: trio.Event = attrs.field(factory=trio.Event)
    _is_waiting: bool = attrs.field(default=False, init=False)

    def rebalance_soon(self) -> None:
        """Rebalance soon, because something changed."""
        self.due.set()

    async def rebalance(self) -> None:
        """Rebalance once, topic by topic.

        Queues of a topic without route or members stay as they are.
        """
        self.due = trio.Event()  # replaced before the round: a change during it causes another
        for topic in self.group.subscriptions:
            try:
                mine = await self._own_queues(topic)
            except FAILURES as exc:
                log.info("group %s keeps its queues of %s: %s", self.group.name, topic, exc)
                self.group.on_event("rebalance_failed", topic=topic, error=str(exc))
                continue
            if mine is not None:
                await self._assign(topic, mine)

    async def rebalance_forever(self) -> NoReturn:
        """Rebalance once per period, and after each change."""
        while True:
            with trio.move_on_after(self.group.config.rebalance_period):
                await self.due.wait()
            await self.rebalance()

    async def _own_queues(self, topic: str) -> list[MessageQueue] | None:
        """Return the queues of a topic allocated to this member.

        None if route or members are unknown.
        """
        client, config = self.group.client, self.group.config
        route = client.routes.routes.get(topic)
        if route is None:
            return None
        queues = subscribe_queues(topic, route)
        if config.model is MessageModel.BROADCASTING:
            return queues
        broker = client.routes.for_topic(topic, client.rng.randrange(1 << 16))
        if broker is None:
            return None
        members = await calls.consumer_ids(client, broker.address, self.group.name)
        if not members:  # we are one: as in Java, each member keeps its queues
            return None
        return rebalance.allocate(config.strategy, client.client_id, queues, members)

    async def _assign(self, topic: str, mine: Iterable[MessageQueue]) -> None:
        wanted = set(mine)
        removed = await self._give_up(
            {
                queue: assignment
                for queue, assignment in self.held.items()
                if queue.topic == topic and (queue not in wanted or assignment.is_leaving)
            }
        )
        self._share_limits(self.held.keys() | wanted)
        added: list[MessageQueue] = []
        silent: set[str] = set()

        async def acquire(queue: MessageQueue) -> None:
            await self._acquire_queue(queue, added, silent)

        await for_each(rebalance.sort_queues(wanted - self.held.keys()), acquire)
        if added or removed:
            self._share_limits(self.held)
            ours = rebalance.sort_queues(queue for queue in self.held if queue.topic == topic)
            self.group.on_event(
                "rebalanced", topic=topic, added=rebalance.sort_queues(added), removed=removed, held=ours
            )

    def _share_limits(self, queues: Collection[MessageQueue]) -> None:
        """Divide the limits that all queues share (class RebalancePushImpl)."""
        if queues:
            self.group.flow = self.group.config.flow.shared_by(len(queues))
            for assignment in self.held.values():
                assignment.notify_room()

    async def _give_up(self, leaving: Mapping[MessageQueue, Assignment]) -> list[MessageQueue]:
        """Release queues, and return them.

        An orderly consumer keeps a queue, and its lock, until the call under way has ended: then it rebalances again.
        """
        if self.group.config.orderly:
            started = [assignment for assignment in leaving.values() if not assignment.is_leaving]
            await orderly.finish(leaving.values())
            for assignment in started:
                if not assignment.is_idle:
                    self.nursery.start_soon(self._rebalance_when_idle, assignment)
        released = [queue for queue, assignment in leaving.items() if assignment.is_idle]
        for queue in released:
            await self._release_queue(queue)
        return released

    async def _rebalance_when_idle(self, assignment: Assignment) -> None:
        await assignment.wait_idle()
        self.rebalance_soon()

    async def _release_queue(self, queue: MessageQueue) -> None:
        if (assignment := self.held.get(queue)) is None:
            return
        assignment.drop()
        await self.group.offsets.commit([queue])
        if self.group.config.needs_locks:  # locks last: a locked queue queries its offset at once
            await orderly.unlock(self.group, [queue])
        self.held.pop(queue, None)
        self.group.offsets.forget(queue)

    async def _acquire_queue(self, queue: MessageQueue, added: list[MessageQueue], silent: set[str]) -> None:
        """Start to pull a queue, and add it to `added`.

        The next rebalance tries again what fails. `silent` has the names of brokers that did not respond in this round:
        their other queues wait for the next.
        """
        config = self.group.config
        if queue.broker_name in silent:
            return
        needs_lock = config.needs_locks
        self.group.offsets.forget(queue)
        try:
            if needs_lock and not await orderly.lock(self.group, queue):
                log.info("%s is assigned to us, but another member still holds its lock", queue)
                self._rebalance_later(config.suspend_current_queue)
                return
            offset = await first_offset(self.group, queue, self.started_at)
        except FAILURES as exc:
            log.info("%s is assigned to us, but its start failed: %s", queue, exc)
            if isinstance(exc, (ConnectError, RequestTimeoutError)):
                silent.add(queue.broker_name)
            return
        held = ProcessQueue(queue, offset, is_locked=needs_lock, locked_at=trio.current_time())
        assignment = self.held[queue] = Assignment(held)
        added.append(queue)
        self.consumption.start_queue(assignment, self.nursery)
        self.nursery.start_soon(self._pull_until_dropped, assignment)

    def _rebalance_later(self, delay: float) -> None:
        """Rebalance after a delay, once for all queues.

        Each rebalance asks for the lock of every queue again.
        """
        if not self._is_waiting:
            self._is_waiting = True
            self.nursery.start_soon(self._rebalance_after, delay)

    async def _rebalance_after(self, delay: float) -> None:
        await trio.sleep(delay)
        self._is_waiting = False
        self.rebalance_soon()

    async def _pull_until_dropped(self, assignment: Assignment) -> None:
        with assignment.pulling:
            puller = QueuePuller(self.group, assignment, self.consumption.submit, self.sends_subscription)
            offered = await puller.pull_until_illegal()
            queue = assignment.held.queue
            self.group.on_event("offset_illegal", queue=queue, asked=assignment.held.next_offset, offered=offered)
            assignment.restart_at = offered
            assignment.drop_messages()
            await trio.sleep(self.group.config.offset_illegal_delay)
            await self._restart_queue(assignment)

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Continue a queue of ours from another offset."""
        assignment = self.held[queue]
        assignment.restart_at = offset
        if not assignment.held.is_dropped:
            assignment.drop()
            self.nursery.start_soon(self._restart_queue, assignment)

    async def _restart_queue(self, assignment: Assignment) -> None:
        """Commit the new offset, release the queue, and let rebalance assign it again.

        A call under way ends first. The queue may be moved again meanwhile.
        """
        queue = assignment.held.queue
        committed: int | None = None
        while committed != assignment.restart_at:
            committed = assignment.restart_at
            self.group.offsets.update(queue, committed)
            await self.group.offsets.commit([queue])
            await assignment.wait_idle()  # it has the old offset
        if self.held.get(queue) is assignment:
            del self.held[queue]
        self.rebalance_soon()


async def first_offset(group: Group, queue: MessageQueue, started_at: int) -> int:
    """Return the committed offset of a queue, else that of consume_from_where.

    `started_at` is the consumer's start in milliseconds.
    """
    client, config = group.client, group.config
    offset = await group.offsets.committed(queue)
    if offset is not None:
        return offset
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    match config.consume_from_where:
        case ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return 0
        case ConsumeFromWhere.CONSUME_FROM_TIMESTAMP if not is_retry:
            timestamp = config.consume_timestamp
            if timestamp is None:
                timestamp = started_at - HALF_AN_HOUR_MILLIS
            return await calls.search_offset(client, queue, timestamp)
        case ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            return await calls.max_offset(client, queue)
    return 0 if is_retry else await calls.max_offset(client, queue)
