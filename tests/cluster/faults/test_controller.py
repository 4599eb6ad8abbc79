"""Faults that the supervisor plays itself, and how they end."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing

from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.faults.ha_report import ForgedHaReport
from rmqlab.faults.specification import TargetNode


@attrs.define(eq=False)
class Play:
    """A fault that plays until it is told to end, and may fail then."""

    may_end: trio.Event = attrs.field(factory=trio.Event)
    error: Exception | None = None

    async def start(self, _fault: object, _nodes: Sequence[TargetNode], _rate: float) -> Callable[[], Awaitable[str]]:
        await trio.lowlevel.checkpoint()
        return self.run

    async def run(self) -> str:
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return "it has ended"


@pytest.fixture
def play(supervisor: Supervisor, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> Play:
    supervisor.faults.services = nursery
    made = Play()

    async def start(fault: object, nodes: Sequence[TargetNode], rate: float) -> Callable[[], Awaitable[str]]:
        return await made.start(fault, nodes, rate)

    monkeypatch.setattr(ForgedHaReport, "start", start)
    return made


def reasons(supervisor: Supervisor) -> list[Any]:
    return [cast("Any", event.fields).get("reason") for event in supervisor.events if event.kind == "fault_healed"]


async def test_a_fault_may_end_in_the_turn_in_which_it_is_healed(supervisor: Supervisor, play: Play) -> None:
    """That raised KeyError, which ended the cluster."""
    active = await supervisor.faults.apply(ForgedHaReport(target="broker-a"))
    await trio.testing.wait_all_tasks_blocked()
    play.may_end.set()
    await supervisor.faults.heal(active.id)
    await trio.testing.wait_all_tasks_blocked()
    assert reasons(supervisor) == [None]


async def test_a_fault_that_fails_is_healed_and_counted(supervisor: Supervisor, play: Play) -> None:
    await supervisor.faults.apply(ForgedHaReport(target="broker-a"))
    play.error = OSError("no descriptor is left")
    play.may_end.set()
    await trio.testing.wait_all_tasks_blocked()
    assert reasons(supervisor) == ["internal error: OSError"]
    assert supervisor.processes.errors.counts == {"fault": 1}
