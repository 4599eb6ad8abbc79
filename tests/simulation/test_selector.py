"""The selector of a simulated network: level-triggered, as epoll."""

import selectors
from collections.abc import Sequence

import pytest
import trio

from rmqlab.simulation.machine import Machine
from rmqlab.simulation.network import Fabric, SimulatedNetwork, SimulatedSelector
from tests.simulation.ends import SimulatedEnds
from tests.simulation.machines import begin, pass_time
from tests.simulation.test_network import fill

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@pytest.fixture
def ends() -> SimulatedEnds:
    return SimulatedEnds.connected("1")


@pytest.fixture
def selector(ends: SimulatedEnds) -> selectors.BaseSelector:
    return SimulatedNetwork(ends.fabric, ends.nodes[1]).open_selector()


def ready(selector: selectors.BaseSelector) -> Sequence[tuple[str, int]]:
    return [(key.data, events) for key, events in selector.select(0)]


def test_a_socket_stays_ready_until_it_is_read(ends: SimulatedEnds, selector: selectors.BaseSelector) -> None:
    selector.register(ends.sockets[1], READ, "far")
    assert ready(selector) == []
    ends.send(0, b"abcd")
    pass_time(ends.machine)
    assert ready(selector) == ready(selector) == [("far", READ)]
    ends.receive(1, 2)
    assert ready(selector) == [("far", READ)]
    ends.receive(1, 2)
    assert ready(selector) == []


def test_a_socket_that_was_ready_before_is_ready_at_once(ends: SimulatedEnds, selector: selectors.BaseSelector) -> None:
    ends.send(0, b"x")
    pass_time(ends.machine)
    selector.register(ends.sockets[1], READ, "far")
    assert ready(selector) == [("far", READ)]


def test_other_events_count_from_modify_on(ends: SimulatedEnds, selector: selectors.BaseSelector) -> None:
    sock = ends.sockets[1]
    selector.register(sock, READ, "read")
    assert ready(selector) == []
    selector.modify(sock, READ | WRITE, "both")
    assert ready(selector) == [("both", WRITE)]
    ends.send(0, b"x")
    pass_time(ends.machine)
    assert ready(selector) == [("both", READ | WRITE)]
    selector.modify(sock, 0, "nothing")
    assert ready(selector) == []
    selector.modify(sock, READ, "read")
    assert ready(selector) == [("read", READ)]


def test_an_end_and_a_reset_are_ready_for_ever(ends: SimulatedEnds, selector: selectors.BaseSelector) -> None:
    other = SimulatedEnds(ends.machine, ends.fabric)
    selector.register(ends.sockets[1], READ, "ended")
    selector.register(other.sockets[1], READ | WRITE, "reset")
    ends.close(0)
    other.abort(0)
    pass_time(ends.machine)
    for _ in range(2):
        assert sorted(ready(selector)) == [("ended", READ), ("reset", READ | WRITE)]
        other.receive(1, 1)


def test_unregistered_sockets_are_forgotten(ends: SimulatedEnds, selector: selectors.BaseSelector) -> None:
    sock = ends.sockets[1]
    assert selector.register(sock, READ | WRITE, "far").fd == sock.fileno()
    with pytest.raises(KeyError):
        selector.register(sock, READ, "again")
    assert selector.unregister(sock).data == "far"
    assert ready(selector) == []
    assert not selector.get_map()
    for call in (selector.unregister, lambda one: selector.modify(one, READ)):
        with pytest.raises(KeyError):
            call(sock)
    selector.register(sock, WRITE, "once more")
    assert ready(selector) == [("once more", WRITE)]


def test_ready_sockets_are_returned_in_the_order_of_readiness(ends: SimulatedEnds) -> None:
    selector = SimulatedNetwork(ends.fabric, ends.nodes[1]).open_selector()
    pairs = [SimulatedEnds(ends.machine, ends.fabric) for _ in range(4)]
    for number, pair in enumerate(pairs):
        selector.register(pair.sockets[1], READ, str(number))
    assert ready(selector) == []
    for number in (2, 0, 3, 1):
        pairs[number].send(0, b"x")
        pass_time(ends.machine)
    assert [name for name, _ in ready(selector)] == ["2", "0", "3", "1"]


class Waiter:
    """A node that waits for its selector, and notes when it was woken."""

    def __init__(self) -> None:
        self.machine = Machine("1")
        self.ends = SimulatedEnds(self.machine, Fabric(self.machine))
        self.woken: list[float] = []
        self.is_patient = True
        self.node = begin(self.machine, self.main)
        network = SimulatedNetwork(self.ends.fabric, self.node)
        self.network, self.selector = network, network.open_selector()

    async def main(self) -> None:
        while self.is_patient:
            await self.network.wait_ready(self.selector)
            self.woken.append(trio.current_time())
            self.is_patient = False


def test_a_waiting_node_is_woken_when_bytes_arrive() -> None:
    waiter = Waiter()
    waiter.selector.register(waiter.ends.sockets[1], READ, "far")
    pass_time(waiter.machine, 3.0)
    assert waiter.woken == []
    waiter.ends.send(0, b"x")
    pass_time(waiter.machine)
    assert len(waiter.woken) == 1
    assert 3.0 < waiter.woken[0] < 3.001


def test_a_waiting_node_is_woken_when_there_is_room_again() -> None:
    """Also if the window was filled by a send that was accepted in part."""
    waiter = Waiter()
    near, far = waiter.ends.sockets
    fill(waiter.ends)
    pass_time(waiter.machine)
    far.recv(10)
    assert near.send(bytes(100)) == 10
    waiter.selector.register(near, WRITE, "near")
    pass_time(waiter.machine, 3.0)
    assert waiter.woken == []
    far.recv(1)
    pass_time(waiter.machine)
    assert len(waiter.woken) == 1


def test_a_wait_can_be_cancelled() -> None:
    machine = Machine("1")
    ends = SimulatedEnds(machine, Fabric(machine))
    selector = SimulatedSelector(machine, ends.nodes[1])
    seen: list[float] = []

    async def main() -> None:
        selector.register(ends.sockets[1], READ, "far")
        with trio.move_on_after(1.0):
            await selector.wait()
        seen.append(trio.current_time())
        ends.send(0, b"x")
        await trio.sleep(1.0)
        await selector.wait()
        seen.append(trio.current_time())

    begin(machine, main)
    pass_time(machine)
    assert seen == [1.0, 2.0]


def test_a_closed_selector_selects_nothing(ends: SimulatedEnds, selector: selectors.BaseSelector) -> None:
    selector.register(ends.sockets[1], WRITE, "far")
    selector.close()
    assert ready(selector) == []
