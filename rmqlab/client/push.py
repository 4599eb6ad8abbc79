"""The push consumer: calls a function of the application with messages.

    consumer = PushConsumer(client, "billing", {"orders": "paid || refunded"}, on_messages)
    nursery.start_soon(consumer.run)

It shares the queues of its topics with the other members of its group, pulls its own, and commits its
progress. Sources: class DefaultMQPushConsumerImpl; store-and-ha section 6.5.
"""

import logging
from collections.abc import Mapping
from typing import NoReturn

import trio

from rmqlab.client import orderly
from rmqlab.client.assignments import Assignments
from rmqlab.client.config import ConsumerConfig
from rmqlab.client.consumestats import ConsumeStats
from rmqlab.client.consuming import ConcurrentConsumption, ConsumeLaterError, Consumption, OnMessages, SendBack, consume
from rmqlab.client.instance import Client
from rmqlab.client.member import Member
from rmqlab.client.message import received
from rmqlab.client.offsets import OnEvent, no_event, offsets_of
from rmqlab.client.orderly import OrderlyConsumption
from rmqlab.client.producer import Producer
from rmqlab.client.pulling import Group
from rmqlab.client.subscription import ALL, Expression, subscriptions
from rmqlab.client.tracing import TRACE_PRODUCER, Tracer, producer_group
from rmqlab.remoting.bodies.heartbeat import ConsumeType, MessageModel
from rmqlab.remoting.bodies.runtime import CMResult, ConsumeMessageDirectlyResult
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.message import decode_message
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.config.valuetypes import Seconds, checked
from rmqlab.runtime.net.dispatch import Reply, Request

log = logging.getLogger(__name__)


class PushConsumer(Member):
    """One member of a consumer group, while `run` runs."""

    consume_type = ConsumeType.CONSUME_PASSIVELY

    @checked
    def __init__(
        self,
        client: Client,
        group: str,
        topics: Mapping[str, Expression],
        on_messages: OnMessages,
        *,
        config: ConsumerConfig | None = None,
        on_event: OnEvent = no_event,
    ) -> None:
        """Each topic has an expression: `*`, tags such as `A || B`, or Sql.

        Events, each with its fields: `rebalanced` (topic, added, removed, held), `rebalance_failed` (topic, error),
        `pulling_from` (queue, broker_id, address), `pull_failed` (queue, address, error), `committing_to` (broker_name,
        broker_id, address), `committed` (group, topic, broker, queue, offset, broker_id), `route_believed` (topic,
        brokers: addresses by name and id), `commit_failed` (broker_name, error), `offset_illegal` (queue, asked,
        offered), `send_back_failed` (queue, message_id, error).
        """
        config = config or ConsumerConfig()
        group = client.named_group(group)
        offsets = offsets_of(client, group, config, on_event)
        wanted: dict[str, Expression] = {client.named(topic): expression for topic, expression in topics.items()}
        if config.model is MessageModel.CLUSTERING:
            wanted[RETRY_PREFIX + group] = ALL
        stats = ConsumeStats(trio.current_time, trio.current_time())
        data = subscriptions(wanted, version=wall_millis())
        tracer = None
        if config.enable_trace:
            sender = Producer(client, producer_group(group, "CONSUME"), TRACE_PRODUCER)
            tracer = Tracer(sender, group, config.trace_topic)
        super().__init__(client, Group(client, group, config, data, offsets, on_event, stats, tracer=tracer))
        self._on_messages = on_messages
        hand_back = SendBack(self._group)
        consumption = OrderlyConsumption if self.config.orderly else ConcurrentConsumption
        self._consumption: Consumption = consumption(self._group, on_messages, hand_back)
        self._stopping = trio.Event()
        self._stopped = trio.Event()

    def suspend(self) -> None:
        """Stop pulling until `resume`.

        Held messages are consumed, and pulls under way still deliver.
        """
        if self._group.resumed.is_set():
            self._group.resumed = trio.Event()

    def resume(self) -> None:
        """Continue after `suspend`."""
        self._group.resumed.set()
        self.rebalance_soon()

    @property
    def is_suspended(self) -> bool:
        return not self._group.resumed.is_set()

    @checked
    async def stop(self, within: Seconds = 10.0) -> None:
        """End `run`: stop pulling, consume held messages, then commit.

        Consuming takes at most `within` seconds. Other messages are delivered again, to another member. Cancelling
        `run` does not wait at all.
        """
        if self.group not in self._client.consumers:
            return
        self.suspend()
        held = list(self._held.values())
        for assignment in held:
            assignment.pulling.cancel()
        with trio.move_on_after(within):
            for assignment in held:
                await assignment.wait_empty()
        self._stopping.set()
        await self._stopped.wait()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Consume until cancelled or stopped; then commit, and leave the group.

        Started after the first rebalance. A consumer runs once: RuntimeError after that.

        BrokerError if a broker rejects an SQL92 subscription.
        """
        if self._stopped.is_set():
            raise RuntimeError(f"the consumer of group {self.group} has run: expected a new one")
        self._client.add_consumer(self.group, self)
        self._client.on_route.append(self._route_changed)
        try:
            for topic in self._group.subscriptions:
                await self._client.try_refresh(topic)
            await self._check_subscriptions()
            await self._client.heartbeat()  # a broker refuses pulls of unregistered groups
            async with trio.open_nursery() as nursery:
                self._consumption.begin(nursery)
                assignments = self._assignments = Assignments(
                    self._group, self._consumption, self.started_at, nursery, self._held
                )
                try:
                    await assignments.rebalance()
                    nursery.start_soon(assignments.rebalance_forever)
                    nursery.start_soon(self._commit_forever)
                    if self.config.needs_locks:
                        nursery.start_soon(orderly.lock_forever, self._group, self._held, assignments.rebalance_soon)
                    task_status.started()
                    await self._stopping.wait()
                finally:
                    self._assignments = None  # before the nursery closes: requests start tasks in it
                nursery.cancel_scope.cancel()
        finally:
            self._client.on_route.remove(self._route_changed)
            with trio.move_on_after(self._client.config.shutdown_timeout, shield=True):
                await self._group.offsets.commit(self._held)
                if self.config.needs_locks:
                    await orderly.unlock(self._group, self._held)
                await self._client.leave(consumer_group=self.group)
                if self._group.tracer is not None:
                    await self._group.tracer.close()
            self._client.consumers.pop(self.group, None)
            self._stopped.set()

    async def _commit_forever(self) -> NoReturn:
        while True:
            await trio.sleep(self.config.commit_period)
            await self._group.offsets.commit(list(self._held))

    def consume_directly(self, request: Request) -> None:
        if self._assignments is None:
            remark = f"the consumer of group {self.group} is starting or stopping"
            request.reply(Reply(ResponseCode.SYSTEM_ERROR, remark=remark))
            return
        self._assignments.nursery.start_soon(self._consume_directly, request)

    async def _consume_directly(self, request: Request) -> None:
        began_at = trio.current_time()
        remark: str | None
        result, remark = CMResult.CR_SUCCESS, None
        try:
            message = received(decode_message(request.command.body), "", self._client.config.namespace)
            await consume(self._on_messages, [message])
        except ConsumeLaterError as exc:
            result, remark = CMResult.CR_LATER, str(exc)
        except Exception as exc:  # noqa: BLE001 - it is reported to the requesting tool
            result, remark = CMResult.CR_THROW_EXCEPTION, repr(exc)
        spent = int((trio.current_time() - began_at) * 1000)
        outcome = ConsumeMessageDirectlyResult(
            consume_result=result, order=self.config.orderly, remark=remark, spent_time_mills=spent
        )
        request.reply(Reply(body=outcome.encode()))
