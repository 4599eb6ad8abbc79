"""Orderly consumption: one batch of a queue at a time, under the broker's lock.

Source: class ConsumeMessageOrderlyService; broker-requests section 3.10. Only masters grant locks, so an orderly
consumer pauses while its master is away (broker-requests: scenario orderly-consumer).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

import trio

from rmqlab.client import broker_api as calls
from rmqlab.client.consuming import OnMessages, SendBack, call
from rmqlab.client.instance import FAILURES
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.processqueue import ProcessQueue
from rmqlab.client.pulling import Assignment, Group
from rmqlab.remoting.bodies.queue import MessageQueue

log = logging.getLogger(__name__)

HAND_OVER_TIMEOUT = 1.0
"""Seconds to wait for calls under way; a queue whose call still runs is released later."""


class OrderlyConsumption:
    """One task per queue. A failed batch is delivered again before later messages."""

    def __init__(self, group: Group, on_messages: OnMessages, hand_back: SendBack) -> None:
        self._group = group
        self._on_messages = on_messages
        self._hand_back = hand_back
        self._free = trio.CapacityLimiter(group.config.concurrency)

    def submit(self, assignment: Assignment, messages: list[ReceivedMessage]) -> None:
        """Wake the queue's task; the messages are held already."""
        del messages
        assignment.arrived.set()

    def begin(self, nursery: trio.Nursery) -> None:
        """Do nothing: each queue has a task."""

    def start_queue(self, assignment: Assignment, nursery: trio.Nursery) -> None:
        """Start the queue's task."""
        nursery.start_soon(self._consume_until_dropped, assignment)

    async def _consume_until_dropped(self, assignment: Assignment) -> None:
        with assignment.consuming:
            while not assignment.is_leaving:
                await self._consume_some(assignment)

    async def _consume_some(self, assignment: Assignment) -> None:
        held, config = assignment.held, self._group.config
        if not self._is_ours(held):
            await trio.sleep(config.suspend_current_queue)  # the lock loop may get it back
            return
        if not held.count:
            assignment.arrived = trio.Event()
            await assignment.arrived.wait()
            return
        async with self._free:
            if assignment.is_leaving or not self._is_ours(held):
                return  # it changed while calls of other queues ran
            failed = await self._deliver(assignment)
        if failed:
            await trio.sleep(config.suspend_current_queue)

    def _is_ours(self, held: ProcessQueue) -> bool:
        config = self._group.config
        return not config.needs_locks or is_granted(held, config.lock_expiry)

    async def _deliver(self, assignment: Assignment) -> bool:
        """Deliver the next batch of a queue; return True if the next batch has to wait."""
        messages = assignment.held.take(self._group.config.consume_batch_size)
        assignment.idle = trio.Event()
        try:
            failed, _ = await call(self._group, self._on_messages, messages)
            return await self._settle(assignment, messages, failed)
        finally:
            assignment.idle.set()

    async def _settle(
        self, assignment: Assignment, messages: list[ReceivedMessage], failed: list[ReceivedMessage]
    ) -> bool:
        """Commit what is consumed. Return True if messages were put back.

        Failed messages are put back, or sent back after their last try.
        """
        held = assignment.held
        held.last_consume_at = trio.current_time()
        repeated = await self._first_to_repeat(failed)
        if held.is_dropped:  # its offset may have been reset meanwhile
            return False
        if repeated is None:
            offset = held.commit()
        else:
            offset = held.remove(messages[: messages.index(repeated)])
            held.put_back()
        self._group.offsets.update(held.queue, offset, increase_only=True)
        assignment.notify_room()
        return repeated is not None

    async def _first_to_repeat(self, failed: list[ReceivedMessage]) -> ReceivedMessage | None:
        """Count the failure of each message, and return the first to deliver again.

        A message after its last try is sent back, unless it is behind one that is delivered again.
        """
        limit = self._group.config.max_reconsume_times
        first = None
        for message in failed:
            is_last_try = limit is not None and message.reconsume_times >= limit
            if first is None and is_last_try and await self._hand_back.after_last_try(message):
                continue
            message.stored.reconsume_times += 1
            first = first or message
        return first


def is_granted(held: ProcessQueue, expiry: float) -> bool:
    """True while the lock is granted and has not expired."""
    return held.is_locked and trio.current_time() - held.locked_at <= expiry


async def lock(group: Group, queue: MessageQueue) -> bool:
    """Lock one queue. Errors as broker_api.lock_queues."""
    master = await calls.master_of(group.client, queue)
    return queue in await calls.lock_queues(group.client, master, group.name, [queue])


async def lock_forever(
    group: Group, assigned: Mapping[MessageQueue, Assignment], rebalance_soon: Callable[[], None]
) -> NoReturn:
    """Renew the locks of all our queues, master by master."""
    while True:
        await trio.sleep(group.config.lock_period)
        for broker_name in _by_broker(assigned):
            if not await _renew_locks(group, assigned, broker_name):
                rebalance_soon()


async def _renew_locks(group: Group, assigned: Mapping[MessageQueue, Assignment], broker_name: str) -> bool:
    """Renew the locks at one master; return False if it refused one.

    Queues may have been released while another master did not respond, and may be during the request.
    """
    queues = _to_renew(assigned, broker_name)
    if not queues:
        return True
    try:
        master = await calls.master_of(group.client, queues[0])
        queues = _to_renew(assigned, broker_name)
        renewed = {queue: assigned[queue] for queue in queues}
        granted = set(await calls.lock_queues(group.client, master, group.name, queues)) if queues else set()
    except FAILURES as exc:
        log.warning("locks of %s at %s not renewed: %s", group.name, broker_name, exc)
        return True
    for queue, assignment in renewed.items():  # one that was assigned again has a later lock
        assignment.held.is_locked = queue in granted
        assignment.held.locked_at = trio.current_time()
    await unlock(group, granted - assigned.keys())
    return granted.issuperset(queues)


def _to_renew(assigned: Mapping[MessageQueue, Assignment], broker_name: str) -> list[MessageQueue]:
    """Return the queues of a broker without those that are being released.

    A call under way keeps the lock.
    """
    return [
        queue
        for queue in _by_broker(assigned).get(broker_name, ())
        if not (assigned[queue].held.is_dropped and assigned[queue].is_idle)
    ]


async def finish(leaving: Iterable[Assignment]) -> None:
    """Let no further call begin in these queues, and wait for those under way.

    The wait is short. Only an idle queue may be released: the next member would consume it while the call still runs
    (class RebalancePushImpl, method removeUnnecessaryMessageQueue).
    """
    assignments = list(leaving)
    for assignment in assignments:
        assignment.leave()
    with trio.move_on_after(HAND_OVER_TIMEOUT):
        for assignment in assignments:
            await assignment.wait_idle()


async def unlock(group: Group, queues: Iterable[MessageQueue]) -> None:
    """Unlock queues; a lock that cannot be released expires."""
    for its_queues in _by_broker(queues).values():
        try:
            master = group.client.routes.master(its_queues[0].broker_name)
            if master is not None:
                await calls.unlock_queues(group.client, master, group.name, its_queues)
        except FAILURES as exc:
            log.info("not unlocked: %s", exc)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker_name, []).append(queue)
    return by_broker
