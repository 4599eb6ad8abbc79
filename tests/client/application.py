"""An application that consumes, as tests of the push consumer need it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import trio

from rmqlab.client.config import ConsumerConfig
from rmqlab.client.instance import Client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.push import PushConsumer

if TYPE_CHECKING:
    from tests.client.conftest import FakeBroker


@attrs.define(eq=False)
class Application:
    """The application's consuming function: records messages, and fails on request.

    It can raise an error for each message body.
    """

    got: list[ReceivedMessage] = attrs.field(factory=list)
    errors: dict[bytes, list[Exception]] = attrs.field(factory=dict)
    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    gate: trio.Event | None = None

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> None:
        self.got += messages
        if self.gate is not None:
            await self.gate.wait()
        for message in messages:
            if self.errors.get(message.body):
                raise self.errors[message.body].pop(0)

    def note(self, kind: str, **fields: Any) -> None:
        self.events.append((kind, fields))

    def events_of(self, kind: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == kind]

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.got)


async def start(
    nursery: trio.Nursery, client: Client, expression: str = "*", **settings: Any
) -> tuple[PushConsumer, Application]:
    application = Application()
    consumer = PushConsumer(
        client,
        "cg",
        {"orders": expression},
        application,
        config=ConsumerConfig(**settings),
        on_event=application.note,
    )
    await nursery.start(consumer.run)
    return consumer, application


def fill(broker: "FakeBroker", queues: int = 4, each: int = 3) -> list[bytes]:
    """Put messages into every queue; return all bodies."""
    bodies = {queue_id: [b"%d/%d" % (queue_id, number) for number in range(each)] for queue_id in range(queues)}
    for queue_id, its_bodies in bodies.items():
        broker.put("orders", queue_id, *its_bodies)
    return sorted(body for its_bodies in bodies.values() for body in its_bodies)
