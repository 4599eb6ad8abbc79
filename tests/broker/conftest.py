"""A broker on a store of its own, which a test talks to by requests."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rmqlab.broker.testing import TalkingBroker, open_talking_broker


@pytest.fixture
def open_broker(tmp_path: pathlib.Path) -> Iterator[Callable[..., TalkingBroker]]:
    """Opens brokers, each below a directory of its own name; closes their stores at the end."""
    opened: list[TalkingBroker] = []

    def open_one(name: str = "broker", **settings: Any) -> TalkingBroker:
        opened.append(open_talking_broker(tmp_path / name, **settings))
        return opened[-1]

    yield open_one
    for one in opened:
        one.broker.store.close()


@pytest.fixture
def talk(open_broker: Callable[..., TalkingBroker]) -> TalkingBroker:
    """A master that replicates to nobody."""
    return open_broker()


@pytest.fixture
def slave(open_broker: Callable[..., TalkingBroker]) -> TalkingBroker:
    """A slave, with nothing in it."""
    return open_broker("slave", broker_role="SLAVE", broker_id=1)
