"""Virtual time, the order of what happens, and the life of simulated processes."""

import pytest
import trio

from rmqlab.runtime.clock import wall_millis
from rmqlab.simulation.machine import EPOCH, DeadlockError, Machine, Node
from tests.simulation.machines import begin, pass_time, run_node


def test_events_happen_by_time_and_then_in_the_order_of_their_entry() -> None:
    machine, happened = Machine("1"), list[str]()
    for moment, name in ((2.0, "late"), (1.0, "first"), (1.0, "second"), (-5.0, "overdue")):
        machine.at(moment, lambda name=name: happened.append(f"{name} {machine.now:g}"))  # type: ignore[misc]
    pass_time(machine)
    assert happened == ["overdue 0", "first 1", "second 1", "late 2"]


def test_time_jumps_to_the_next_deadline() -> None:
    async def main() -> tuple[float, float]:
        before = trio.current_time()
        await trio.sleep(80_000)
        return before, trio.current_time()

    assert run_node(Machine("1"), main) == (0.0, 80_000)


def test_each_run_begins_at_the_same_wall_time() -> None:
    async def main() -> int:
        await trio.sleep(1.5)
        return wall_millis()

    assert run_node(Machine("1"), main) == int(EPOCH + 1.5) * 1000 + 500


def test_nodes_run_beside_each_other() -> None:
    machine, seen = Machine("1"), list[tuple[str, float]]()

    async def tick(name: str, period: float) -> None:
        for _ in range(3):
            await trio.sleep(period)
            seen.append((name, trio.current_time()))

    begin(machine, lambda: tick("a", 1.0))
    begin(machine, lambda: tick("b", 0.75))
    pass_time(machine)
    assert seen == [("b", 0.75), ("a", 1.0), ("b", 1.5), ("a", 2.0), ("b", 2.25), ("a", 3.0)]


def test_a_node_that_waits_for_nothing_is_stuck() -> None:
    with pytest.raises(DeadlockError, match=r"main waits at 0\.000 s"):
        run_node(Machine("1"), trio.sleep_forever)


def test_virtual_time_passes_in_an_endless_loop() -> None:
    """Otherwise a busy node would stop all others, and the simulation would not end."""
    machine = Machine("1")

    async def spin() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    async def main() -> float:
        await trio.sleep(0.01)
        return trio.current_time()

    begin(machine, spin)
    assert run_node(machine, main) == 0.01


class Life:
    """A node that counts its seconds, and notes its end."""

    def __init__(self) -> None:
        self.machine = Machine("1")
        self.seconds = 0
        self.cleaned_up = False
        self.told: list[float] = []
        self.ends: list[Node] = []
        self.node = self.machine.start("node", self.main, self.ends.append)

    async def main(self) -> None:
        try:
            while self.seconds < 10:
                await trio.sleep(1.0)
                self.seconds += 1
        finally:
            self.cleaned_up = True

    def tell(self) -> None:
        self.machine.call_in(self.node, lambda: self.told.append(trio.current_time()))


def test_on_end_is_called_when_a_node_ends_by_itself() -> None:
    life = Life()
    pass_time(life.machine)
    assert (life.ends, life.node.is_gone, life.cleaned_up) == ([life.node], True, True)


def test_a_paused_node_continues_when_it_is_resumed() -> None:
    """Its own time passed meanwhile: one long second."""
    life = Life()
    pass_time(life.machine, 2.5)
    life.machine.pause(life.node)
    pass_time(life.machine, 100.0)
    assert life.seconds == 2
    life.machine.resume(life.node)
    pass_time(life.machine, 0.0)
    assert life.seconds == 3
    pass_time(life.machine, 1.0)
    assert life.seconds == 4


def test_messages_to_a_paused_node_wait() -> None:
    life = Life()
    pass_time(life.machine, 1.0)
    life.machine.pause(life.node)
    life.tell()
    pass_time(life.machine, 5.0)
    assert life.told == []
    life.machine.resume(life.node)
    pass_time(life.machine, 0.0)
    assert life.told == [6.0]


@pytest.mark.parametrize("seconds", [0.0, 2.5])
def test_a_killed_node_neither_cleans_up_nor_receives_messages(seconds: float) -> None:
    """At its start, and while it runs."""
    life = Life()
    if seconds:
        pass_time(life.machine, seconds)
    life.machine.kill(life.node)
    life.tell()
    pass_time(life.machine)
    assert (life.seconds, life.cleaned_up, life.told, life.ends) == (int(seconds), False, [], [])
    life.machine.kill(life.node)  # again: no effect
    assert life.node.is_gone


def test_a_paused_node_can_be_killed() -> None:
    life = Life()
    pass_time(life.machine, 1.0)
    life.machine.pause(life.node)
    life.machine.kill(life.node)
    life.machine.resume(life.node)
    pass_time(life.machine)
    assert (life.seconds, life.cleaned_up) == (1, False)
