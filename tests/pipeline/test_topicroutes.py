"""Routes of many topics are fetched together; a missing one hides no other."""

import logging
from typing import Any

import pytest
import trio

from rmqlab.client.errors import NoRouteError
from rmqlab.pipeline.topics import queues, topicbounds
from rmqlab.pipeline.topics.queues import Topic
from rmqlab.pipeline.topics.topicbounds import Bounds
from rmqlab.pipeline.topics.topicoffsets import QueueName
from rmqlab.pipeline.topics.topicoptions import TopicOptions

TOPICS = [f"t{number:02}" for number in range(20)]
_CLIENT: Any = None
"""No request of these tests reaches a client."""


def _serve(monkeypatch: pytest.MonkeyPatch, missing: str = "") -> Bounds:
    """Return bounds whose nameserver responds when all topics were asked for."""
    asked: set[str] = set()
    all_asked = trio.Event()

    async def topic_of(_: object, topic: str) -> Topic:
        asked.add(topic)
        if len(asked) == len(TOPICS):
            all_asked.set()
        with trio.fail_after(60):
            await all_asked.wait()
        if topic == missing:
            raise NoRouteError(topic)
        return Topic((QueueName(topic, "broker-a", 0),), {"broker-a": {0: "127.0.0.1:1"}})

    async def topics_of(_: object) -> list[str]:
        return TOPICS

    monkeypatch.setattr(queues, "topic_of", topic_of)
    monkeypatch.setattr(topicbounds, "_topics_of", topics_of)
    return Bounds(TopicOptions(name_server="127.0.0.1:1", topics=tuple(TOPICS)))


def test_routes_of_many_topics_are_fetched_together(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = _serve(monkeypatch)
    trio.run(bounds.look_again, _CLIENT)
    assert sorted(queue.topic for queue in bounds.queues) == TOPICS


def test_a_topic_without_a_route_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bounds = _serve(monkeypatch, missing="t07")
    with caplog.at_level(logging.WARNING):
        trio.run(bounds.look_again, _CLIENT)
    assert sorted(queue.topic for queue in bounds.queues) == [topic for topic in TOPICS if topic != "t07"]
    assert "there is no topic t07" in caplog.text


@pytest.mark.parametrize(
    ("known", "namespace", "said"),
    [
        (["orders"], "", "; did you mean orders?"),
        ([], "", ": brokers have not yet registered, or have all left"),
        ([], "NS", ", nor any other in namespace NS"),
    ],
)
def test_a_topic_that_a_nameserver_does_not_know_is_explained(
    monkeypatch: pytest.MonkeyPatch, known: list[str], namespace: str, said: str
) -> None:
    async def topics_of(_: object) -> list[str]:
        return known

    monkeypatch.setattr(topicbounds, "_topics_of", topics_of)
    options = TopicOptions(name_server="127.0.0.1:1", topic="ordres", namespace=namespace)
    error = trio.run(Bounds(options)._unknown, _CLIENT, "ordres")
    assert error == f"there is no topic ordres{said} (nameserver 127.0.0.1:1)"
