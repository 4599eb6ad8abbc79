"""The parts that tests of both sides run: a reactor in the background, and a memory of what was told."""

import pytest
import trio

from rmqlab.broker.ha.testing import Recorder
from rmqlab.runtime.reactor import Reactor


@pytest.fixture
async def reactor(nursery: trio.Nursery) -> Reactor:
    made = Reactor()
    nursery.start_soon(made.run_forever)
    return made


@pytest.fixture
def told() -> Recorder:
    return Recorder()
