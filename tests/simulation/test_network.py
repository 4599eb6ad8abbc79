"""Ports, connections and their limits, on a machine whose nodes run no code."""

import errno
from collections.abc import Callable

import pytest

from rmqlab.simulation.connection import WINDOW, ConnectedSocket, ListeningSocket
from rmqlab.simulation.machine import Machine, Node
from rmqlab.simulation.medium import JITTER, LATENCY
from rmqlab.simulation.network import Fabric, SimulatedNetwork
from tests.simulation.ends import SimulatedEnds, idle_node
from tests.simulation.machines import begin, pass_time, run_node

SERVER = "127.0.0.2"
ADDRESS = SERVER, 80


@pytest.fixture
def ends() -> SimulatedEnds:
    return SimulatedEnds.connected("1")


@pytest.fixture
def fabric() -> Fabric:
    return Fabric(Machine("1"))


def listen(fabric: Fabric, address: tuple[str, int] = ADDRESS, backlog: int = 10) -> ListeningSocket:
    return fabric.listen(idle_node(fabric.machine, "server"), address, backlog)


def connect(fabric: Fabric, address: tuple[str, int] = ADDRESS) -> ConnectedSocket:
    return fabric.connect(idle_node(fabric.machine, "client"), "127.0.0.1", address)


def fails_with(number: int, fn: Callable[[], object]) -> bool:
    try:
        fn()
    except OSError as exc:
        return exc.errno == number
    return False


# ---- ports ----


def test_both_ends_name_the_same_addresses(fabric: Fabric) -> None:
    listener = listen(fabric)
    near = connect(fabric)
    far, address = listener.accept()
    assert near.getpeername() == far.getsockname() == ADDRESS
    assert near.getsockname() == far.getpeername() == address
    assert address[0] == "127.0.0.1"


def test_a_port_without_listener_refuses(fabric: Fabric) -> None:
    assert fails_with(errno.ECONNREFUSED, lambda: connect(fabric))
    listen(fabric).close()
    assert fails_with(errno.ECONNREFUSED, lambda: connect(fabric))


def test_port_0_is_a_free_one(fabric: Fabric) -> None:
    ports = {listen(fabric, (SERVER, 0)).own[1] for _ in range(3)}
    assert len(ports) == 3
    for port in ports:
        connect(fabric, (SERVER, port))


@pytest.mark.parametrize(("first", "second"), [(SERVER, SERVER), ("0.0.0.0", SERVER), (SERVER, "0.0.0.0")])
def test_a_taken_port_cannot_be_opened(fabric: Fabric, first: str, second: str) -> None:
    listener = listen(fabric, (first, 80))
    assert fails_with(errno.EADDRINUSE, lambda: listen(fabric, (second, 80)))
    listen(fabric, (second, 81))
    listener.close()
    listen(fabric, (second, 80))


def test_a_listener_at_all_addresses_accepts_from_each(fabric: Fabric) -> None:
    listener = listen(fabric, ("0.0.0.0", 80))
    connect(fabric, ("127.0.0.7", 80))
    assert listener.accept()[0].getsockname() == ("127.0.0.7", 80)


def test_a_full_backlog_refuses_until_a_connection_is_accepted(fabric: Fabric) -> None:
    listener = listen(fabric, backlog=2)
    waiting = [connect(fabric), connect(fabric)]
    assert fails_with(errno.ECONNREFUSED, lambda: connect(fabric))
    assert listener.accept()[0].getpeername() == waiting[0].own
    connect(fabric)


def test_a_listener_that_closes_resets_the_connections_in_its_backlog(fabric: Fabric) -> None:
    listener = listen(fabric)
    near = connect(fabric)
    listener.close()
    pass_time(fabric.machine)
    assert fails_with(errno.ECONNRESET, lambda: near.recv(1))


def test_nothing_to_accept_would_block(fabric: Fabric) -> None:
    assert fails_with(errno.EAGAIN, listen(fabric).accept)


# ---- connections ----


def test_bytes_take_the_latency(ends: SimulatedEnds) -> None:
    ends.send(0, b"x")
    pass_time(ends.machine, LATENCY * 0.99)
    assert ends.receive(1, 1) == "EAGAIN"
    pass_time(ends.machine, JITTER + LATENCY)
    assert ends.receive(1, 1) == b"x"


def test_bytes_arrive_in_order_whatever_the_latency_of_each(ends: SimulatedEnds) -> None:
    text = b"".join(number.to_bytes(2, "big") for number in range(2000))
    for at in range(0, len(text), 100):
        ends.send(0, text[at : at + 100])
        pass_time(ends.machine, LATENCY / 7)
    ends.close(0)
    pass_time(ends.machine)
    assert ends.receive(1, len(text) + 1) == text


def test_some_sends_are_accepted_in_part() -> None:
    """As the kernel may: a sender must send the rest."""
    sizes = set()
    for seed in range(300):
        ends = SimulatedEnds.connected(str(seed))
        sizes.add(ends.sockets[0].send(bytes(1000)))
    assert max(sizes) == 1000
    assert 1 < len(sizes) < 30


def test_some_bytes_arrive_in_two_pieces() -> None:
    cut = 0
    for seed in range(300):
        ends = SimulatedEnds.connected(str(seed))
        sent = ends.sockets[0].send(bytes(1000))
        while ends.machine._events and ends.sockets[1].readiness() & 1 == 0:  # type: ignore[attr-defined]
            pass_time(ends.machine, LATENCY / 100)
        first = ends.sockets[1].recv(1000)
        cut += len(first) < sent
    assert 0 < cut < 30


def fill(ends: SimulatedEnds) -> int:
    """Send until no more is accepted; return the number of bytes."""
    sent = 0
    while True:
        try:
            sent += ends.sockets[0].send(bytes(100_000))
        except BlockingIOError:
            return sent


def test_the_window_limits_what_the_peer_has_not_received(ends: SimulatedEnds) -> None:
    assert fill(ends) == WINDOW
    pass_time(ends.machine)
    assert ends.send(0, b"x") == "EAGAIN"
    assert ends.receive(1, 1000) == bytes(1000)
    assert fill(ends) == 1000
    assert ends.send(1, b"the other direction is free") == 27


def test_a_stopped_process_still_receives_the_bytes_of_its_window() -> None:
    """Its kernel acknowledges: only its own window stops the peer."""
    machine = Machine("1")
    ends = SimulatedEnds(machine, Fabric(machine))
    machine.pause(ends.nodes[1])
    assert fill(ends) == WINDOW
    pass_time(machine)
    ends.close(0)
    machine.resume(ends.nodes[1])
    pass_time(machine)
    assert ends.receive(1, 2 * WINDOW) == bytes(WINDOW)
    assert ends.receive(1, 1) == b""


def test_a_write_to_a_closed_peer_is_reset_then_broken(ends: SimulatedEnds) -> None:
    ends.close(1)
    pass_time(ends.machine)
    assert ends.send(0, b"accepted, and lost") == 18
    pass_time(ends.machine)
    assert ends.send(0, b"x") == ends.send(0, b"x") == "EPIPE"
    assert ends.receive(0, 1) == b""


def test_a_reset_is_raised_once(ends: SimulatedEnds) -> None:
    ends.abort(1)
    pass_time(ends.machine)
    assert ends.send(0, b"x") == "ECONNRESET"
    assert ends.send(0, b"x") == "EPIPE"
    assert ends.receive(0, 1) == b""
    assert ends.has_peer(0) == "ENOTCONN"


def test_unread_bytes_make_the_end_a_reset(ends: SimulatedEnds) -> None:
    ends.send(0, b"unread")
    pass_time(ends.machine)
    ends.close(1)
    pass_time(ends.machine)
    assert ends.receive(0, 1) == "ECONNRESET"


def test_the_sockets_of_a_killed_process_are_closed(ends: SimulatedEnds) -> None:
    """By its kernel: with an end of stream, or a reset if bytes were not received."""
    machine = ends.machine
    other = SimulatedEnds(machine, ends.fabric)
    other.send(0, b"unread")
    pass_time(machine)
    listener = ends.fabric.listen(ends.nodes[1], ADDRESS, 10)
    machine.kill(ends.nodes[1])
    machine.kill(other.nodes[1])
    pass_time(machine)
    assert ends.receive(0, 1) == b""
    assert other.receive(0, 1) == "ECONNRESET"
    assert listener.is_closed
    assert fails_with(errno.ECONNREFUSED, lambda: connect(ends.fabric))
    assert ends.nodes[1].resources == {}


def test_a_closed_socket_can_do_nothing(ends: SimulatedEnds) -> None:
    sock = ends.sockets[0]
    with sock:
        assert sock.fileno() > 2
    assert sock.fileno() == -1
    for call in (sock.getsockname, sock.getpeername, lambda: sock.recv(1), lambda: sock.send(b"x")):
        assert fails_with(errno.EBADF, call)
    sock.close()


def test_received_bytes_go_into_a_buffer(ends: SimulatedEnds) -> None:
    ends.send(0, b"abcdef")
    pass_time(ends.machine)
    buffer = bytearray(4)
    assert ends.sockets[1].recv_into(buffer) == 4
    assert buffer == b"abcd"
    assert ends.receive(1, 9) == b"ef"


def test_many_buffers_are_sent_as_one(ends: SimulatedEnds) -> None:
    assert ends.sockets[0].sendmsg([b"ab", memoryview(b"cd"), bytearray(b"ef")]) == 6
    pass_time(ends.machine)
    assert ends.receive(1, 9) == b"abcdef"


# ---- the network of a node ----


def test_connect_takes_a_round_trip() -> None:
    machine = Machine("1")
    fabric = Fabric(machine)

    async def main() -> tuple[tuple[str, int], float]:
        sock = await SimulatedNetwork(fabric, node).connect(*ADDRESS, None)
        return sock.getsockname(), machine.now

    listener = listen(fabric)
    node = begin(machine, main)
    machine.run_until(node)
    own, moment = node.guest.outcome()
    assert 2 * LATENCY <= moment <= 2 * (LATENCY + JITTER)
    assert listener.accept()[0].getpeername() == own


def test_connect_is_refused_within_the_node() -> None:
    machine = Machine("1")
    fabric = Fabric(machine)

    async def main() -> str:
        network = SimulatedNetwork(fabric, idle_node(machine, "client"))
        with pytest.raises(ConnectionRefusedError):
            await network.connect(*ADDRESS, "127.0.0.3")
        return "refused"

    assert run_node(machine, main) == "refused"


def test_the_node_of_a_socket_has_it_until_it_closes(ends: SimulatedEnds) -> None:
    node: Node = ends.nodes[0]
    assert len(node.resources) == 1
    ends.close(0)
    assert not node.resources
