"""How long a node is waited for, in virtual time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from cluster.directory import ClusterDirectory
from cluster.eventlog import EventLog
from cluster.life import Life
from cluster.supervisor import NodeFailedError, Supervisor
from cluster.topology import ClusterSpec, Placement
from remoting.clock import ClockSettings, RatedClock
from remoting.control import Event, Ready

LINK = cast("Any", SimpleNamespace(hello=SimpleNamespace(name="broker-a")))


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    clock = RatedClock(ClockSettings.starting_now(1.0))
    directory = ClusterDirectory.at(tmp_path)
    made = Supervisor(ClusterSpec(name="x"), Placement(), directory, clock, cast("Any", None), {}, EventLog())
    made.lives["broker-a"] = Life(is_alive=True, pid=1)
    return made


async def test_a_broker_that_recovers_a_long_log_is_waited_for_as_long_as_it_comes_on(
    supervisor: Supervisor, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    del autojump_clock

    async def recover() -> None:
        for offset in range(1, 6):
            await trio.sleep(20)
            supervisor._event(LINK, Event(0, "recovering", {"offset": offset}))
        await trio.sleep(20)
        supervisor._ready(LINK, Ready({}))

    nursery.start_soon(recover)
    await supervisor.wait_ready("broker-a", 30)
    assert trio.current_time() >= 120


async def test_one_that_comes_no_further_is_not(supervisor: Supervisor, autojump_clock: MockClock) -> None:
    del autojump_clock
    supervisor._event(LINK, Event(0, "recovering", {"offset": 7}))
    with pytest.raises(NodeFailedError, match="broker-a is not ready after 30 s"):
        await supervisor.wait_ready("broker-a", 30)
    assert trio.current_time() == 60
