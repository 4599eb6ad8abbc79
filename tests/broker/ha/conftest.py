"""Common parts of tests of both HA sides: a background reactor, an event recorder."""

from collections.abc import AsyncIterator, Callable

import pytest
import trio

from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.testing import Recorder
from rmqlab.broker.testing import TalkingBroker
from rmqlab.runtime.net.reactor import Reactor
from tests.broker.ha.precheckpair import FILE, Line, Pair


@pytest.fixture
async def reactor(nursery: trio.Nursery) -> Reactor:
    made = Reactor()
    nursery.start_soon(made.run_forever)
    return made


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def pair(
    open_broker: Callable[..., TalkingBroker], reactor: Reactor, nursery: trio.Nursery, recorder: Recorder
) -> AsyncIterator[Pair]:
    sizes = {"mapped_file_size_commit_log": FILE}
    master = open_broker("master", **sizes)
    slave = open_broker("slave", broker_role="SLAVE", broker_id=1, **sizes)
    ha = HaMaster(reactor, master.broker.store, HaSettings(), on_ack=recorder.acked, emit=recorder.emit)
    host, port = ha.listen("127.0.0.1", 0)
    nursery.start_soon(ha.run_forever)
    yield Pair(reactor, nursery, recorder, master, ha, slave, Line(master), f"{host}:{port}")
    nursery.cancel_scope.cancel()
    ha.close()
