"""trio inside of a simulated process."""

from collections.abc import AsyncIterator

import pytest
import trio

from rmqlab.simulation.guest import BUSY_TICKS, Guest, VirtualClock, seed_scheduler
from rmqlab.simulation.machine import EPOCH, Machine
from tests.simulation.machines import begin, pass_time, run_node


def test_an_exception_is_raised_from_the_outcome() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ValueError("wrong")

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="wrong")):
        run_node(Machine("1"), main)


def test_a_guest_has_no_outcome_before_its_end() -> None:
    guest = Guest("early", VirtualClock(lambda: 0.0, EPOCH))
    with pytest.raises(RuntimeError, match="early has not ended"):
        guest.outcome()


def test_deadlines_expire_on_virtual_time() -> None:
    async def main() -> tuple[bool, float]:
        with trio.move_on_after(2.5) as scope:
            await trio.sleep(10)
        return scope.cancelled_caught, trio.current_time()

    assert run_node(Machine("1"), main) == (True, 2.5)


def test_each_guest_has_its_own_run() -> None:
    """Tokens, variables of the run, and deadlines are those of the guest that runs."""
    machine, name = Machine("1"), trio.lowlevel.RunVar[str]("name")
    seen: list[tuple[str, bool]] = []

    async def main(own: str) -> None:
        name.set(own)
        token = trio.lowlevel.current_trio_token()
        for _ in range(3):
            await trio.sleep(1.0)
            seen.append((name.get(), trio.lowlevel.current_trio_token() is token))

    for own in "abc":
        begin(machine, lambda own=own: main(own))  # type: ignore[misc]
    pass_time(machine)
    assert sorted(seen) == [(own, True) for own in "abc" for _ in range(3)]


def test_generators_are_closed_at_the_end_of_their_own_guest() -> None:
    closed: list[str] = []

    async def numbers(own: str) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            closed.append(own)

    async def main(own: str, seconds: float) -> None:
        generator = numbers(own)
        assert await anext(generator) == 1
        await trio.sleep(seconds)
        del generator

    machine = Machine("1")
    begin(machine, lambda: main("short", 1.0))
    begin(machine, lambda: main("long", 2.0))
    pass_time(machine, 1.5)
    assert closed == ["short"]
    pass_time(machine)
    assert closed == ["short", "long"]


def test_a_guest_wakes_other_tasks_over_its_token() -> None:
    async def main() -> list[str]:
        called: list[str] = []
        trio.lowlevel.current_trio_token().run_sync_soon(called.append, "soon")
        await trio.sleep(1.0)
        return called

    assert run_node(Machine("1"), main) == ["soon"]


def test_a_guest_that_never_waits_is_interrupted() -> None:
    machine, count = Machine("1"), 0

    async def main() -> None:
        nonlocal count
        while True:
            count += 1
            await trio.lowlevel.checkpoint()

    begin(machine, main)
    pass_time(machine, 0.0)
    assert BUSY_TICKS // 2 < count <= BUSY_TICKS


def test_the_seed_decides_the_order_of_tasks() -> None:
    def play(seed: str) -> list[int]:
        order: list[int] = []

        async def note(number: int) -> None:
            for _ in range(3):
                await trio.sleep(1.0)
                order.append(number)

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(note, number)

        seed_scheduler(seed)
        run_node(Machine("1"), main)
        return order

    assert play("1") == play("1") != play("2") == play("2")
