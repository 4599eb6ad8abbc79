"""An orderly consumer, and an application that records its messages."""

from collections.abc import Sequence
from typing import Any

import trio

from rmqlab.client.config import ConsumerConfig
from rmqlab.client.consuming import ConsumeLaterError
from rmqlab.client.instance import Client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.push import PushConsumer


class Application:
    """Records its messages slowly, and fails `failures` times at a body."""

    def __init__(self, *, failures: dict[bytes, int] | None = None, pace: float = 0.0) -> None:
        self.got: list[bytes] = []
        self.began = 0
        self.at_work = 0
        self.most_at_work = 0
        self._failures = failures or {}
        self._pace = pace

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> None:
        self.began += len(messages)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            await trio.sleep(self._pace)
        finally:
            self.at_work -= 1
        for message in messages:
            self.got.append(message.body)
            if self._failures.get(message.body, 0) > 0:
                self._failures[message.body] -= 1
                raise ConsumeLaterError


async def start(nursery: trio.Nursery, client: Client, application: Application, **settings: Any) -> PushConsumer:
    config = ConsumerConfig(orderly=True, **settings)
    consumer = PushConsumer(client, "cg", {"orders": "*"}, application, config=config)
    await nursery.start(consumer.run)
    return consumer
