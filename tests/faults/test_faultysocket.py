"""A socket behind a bad network: real loopback sockets, and a manual clock."""

import contextlib
import heapq
import itertools
import select
import selectors
import socket
from collections.abc import Callable, Iterator

import attrs
import pytest

from rmqlab.faults.link.faultysocket import READ, WRITE, FaultySocket
from rmqlab.faults.link.netem import UNIMPAIRED, Impairment
from rmqlab.runtime.net.timers import Timers

LOOPBACK_SECONDS = 20.0
"""Real seconds for bytes to go from one socket of this machine to another; they take microseconds."""


@attrs.define(eq=False)
class Moments(Timers):
    """Timers whose time is moved by hand."""

    now: float = 0.0
    _due: list[tuple[float, int, Callable[[], None]]] = attrs.field(factory=list)
    _count: Iterator[int] = attrs.field(factory=itertools.count)

    def call_at(self, moment: float, fn: Callable[[], None]) -> None:
        heapq.heappush(self._due, (moment, next(self._count), fn))

    def run_due(self) -> None:
        for _ in range(10_000):
            if not self._due or self._due[0][0] > self.now:
                return
            heapq.heappop(self._due)[2]()
        raise AssertionError("it calls itself for ever")


@attrs.define(eq=False)
class Owner:
    """Reads all available bytes and writes the given ones, as a channel does."""

    sock: FaultySocket
    got: bytearray = attrs.field(factory=bytearray)
    end: str = ""
    owed: bytes = b""

    def send(self, data: bytes) -> None:
        self.owed += data
        self.flush()

    def flush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self.owed:
                self.owed = self.owed[self.sock.send(self.owed) :]
        self.sock.watch(READ | (WRITE if self.owed else 0), self.on_ready)

    def on_ready(self, events: int) -> None:
        if events & WRITE:
            self.flush()
        if events & READ:
            try:
                data = self.sock.recv(1000)
            except BlockingIOError:
                return
            except OSError as exc:
                data, self.end = b"", type(exc).__name__
            else:
                self.end = "" if data else "closed"
            self.got += data
            if self.end:
                self.sock.unwatch()
                self.sock.close()


class World:
    def __init__(self) -> None:
        self.moments = Moments()
        self.selector = selectors.DefaultSelector()
        self.restored: list[FaultySocket] = []
        self.gone: list[FaultySocket] = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.peer = socket.create_connection(listener.getsockname())
            raw, _ = listener.accept()
        raw.setblocking(False)
        self.peer.settimeout(LOOPBACK_SECONDS)
        self.sock = FaultySocket(
            raw,
            self.selector,
            self.moments,
            on_transparent=self.restore,
            on_gone=self.gone.append,
            now=lambda: self.moments.now,
        )
        self.owner = Owner(self.sock)
        self.sock.take_over(READ, self.owner.on_ready)

    def restore(self, sock: FaultySocket) -> None:
        sock.give_back()
        self.restored.append(sock)

    def impair(self, inbound: Impairment = UNIMPAIRED, outbound: Impairment = UNIMPAIRED) -> None:
        self.sock.set_impairments(inbound, outbound)
        self.settle()

    def settle(self) -> None:
        """Let everything happen that happens now."""
        self.moments.run_due()
        while ready := self.selector.select(0):
            for key, events in ready:
                key.data(events)
            self.moments.run_due()

    def arrive(self, data: bytes = b"") -> None:
        """The peer sends, and it has arrived at the system."""
        if data:
            self.peer.sendall(data)
        if self.sock.raw.fileno() >= 0:
            assert select.select([self.sock.raw], [], [], LOOPBACK_SECONDS)[0]
        self.settle()

    def until(self, moment: float) -> None:
        while self.moments._due and self.moments._due[0][0] <= moment:
            self.moments.now = max(self.moments.now, self.moments._due[0][0])
            self.settle()
        self.moments.now = moment
        self.settle()

    def peer_gets(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.peer.recv(size - len(data))
            if not part:
                break
            data += part
        return data

    def peer_is_silent(self) -> bool:
        return not select.select([self.peer], [], [], 0.05)[0]

    def close(self) -> None:
        self.peer.close()
        self.sock.abandon()
        self.selector.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_all_ways_to_receive_give_the_same(world: World, piece: int) -> None:
    world.impair(inbound=Impairment(segment=piece, latency=1))
    world.sock.unwatch()
    world.sock.watch(READ, lambda _events: None)
    world.moments.now = 0
    world.peer.sendall(b"abcdefghij")
    assert select.select([world.sock.raw], [], [], LOOPBACK_SECONDS)[0]
    for key, events in world.selector.select(0):
        key.data(events)
    world.moments.now = 1.0
    one = bytearray(7)
    got = world.sock.recv_into(memoryview(one))
    assert one[:got] == b"abcdefg"[: min(7, piece)]
    rest = bytearray(1)
    assert world.sock.recv_into(memoryview(rest)) == 1
    assert rest == b"abcdefghij"[got : got + 1]


def test_latency_delays_each_direction_by_its_own(world: World) -> None:
    world.impair(inbound=Impairment(latency=2), outbound=Impairment(latency=5))
    world.arrive(b"hello")
    world.owner.send(b"hi")
    world.until(1.9)
    assert world.owner.got == b""
    world.until(2)
    assert world.owner.got == b"hello"
    assert world.peer_is_silent()
    world.until(5)
    assert world.peer_gets(2) == b"hi"


def test_the_buffers_of_one_send_are_in_flight_as_one(world: World) -> None:
    """Up to 512 replies are sent at once; the link holds MOST_PARTS sends."""
    world.impair(outbound=Impairment(latency=5))
    for _ in range(20):
        assert world.sock.sendmsg([b"x"] * 512) == 512
    world.until(5)
    assert world.peer_gets(20 * 512) == b"x" * 20 * 512


def test_a_send_ends_where_the_link_is_full(world: World) -> None:
    world.impair(outbound=Impairment(latency=5, window=10))
    assert world.sock.sendmsg([b"", b"abcdef", b"ghijkl", b"m"]) == 10
    with pytest.raises(BlockingIOError):
        world.sock.sendmsg([b"kl", b"m"])
    world.until(5)
    assert world.peer_gets(10) == b"abcdefghij"


def test_a_heal_keeps_delayed_bytes_before_it_restores_the_real_socket(world: World) -> None:
    world.impair(inbound=Impairment(latency=2))
    world.arrive(b"slow")
    world.impair()
    assert not world.restored
    world.arrive(b"er")
    world.until(2)
    assert world.owner.got == b"slower"
    assert world.restored


def test_a_blackhole_hides_bytes_and_end_alike_until_it_is_healed(world: World) -> None:
    world.impair(inbound=Impairment(is_blocked=True))
    world.arrive(b"lost?")
    world.peer.close()
    world.until(100)
    assert (bytes(world.owner.got), world.owner.end) == (b"", "")
    world.owner.send(b"to nobody")
    world.owner.send(b"who has gone")
    assert world.owner.end == ""
    world.impair()
    assert world.owner.got == b""
    world.until(102.2)  # 0.2 * (2 ** 9 - 1)
    world.until(102.3)
    assert (bytes(world.owner.got), world.owner.end != "") == (b"lost?", True)


def test_bytes_sent_into_a_blackhole_are_retransmitted_after_the_heal(world: World) -> None:
    world.impair(outbound=Impairment(is_blocked=True))
    world.owner.send(b"early")
    world.until(2)
    world.owner.send(b"late")
    assert world.peer_is_silent()
    world.impair()
    assert world.peer_is_silent()
    world.until(3)  # 0.2 + 0.4 + 0.8 + 1.6
    assert world.peer_gets(9) == b"earlylate"


def test_a_blackhole_accepts_as_many_bytes_as_the_buffers_hold(world: World) -> None:
    world.impair(outbound=Impairment(is_blocked=True))
    world.owner.send(bytes(5 * 2**20))
    assert len(world.owner.owed) == 2**20
    world.impair()
    world.peer.settimeout(0.01)
    got, now = 0, 0.0
    while got < 5 * 2**20:
        now += 0.1
        world.until(now)
        with contextlib.suppress(TimeoutError):
            got += len(world.peer.recv(2**20))
    assert world.owner.owed == b""


def test_a_close_into_a_blackhole_is_not_heard_of_before_the_heal(world: World) -> None:
    world.impair(outbound=Impairment(is_blocked=True))
    world.owner.send(b"goodbye")
    world.sock.unwatch()
    world.sock.close()
    world.until(10)
    assert world.peer_is_silent()
    assert not world.gone
    world.impair()
    world.until(20)
    assert world.peer_gets(100) == b"goodbye"
    assert world.gone == [world.sock]


def test_a_close_that_is_long_ago_when_the_blackhole_ends_is_a_reset(world: World) -> None:
    world.impair(outbound=Impairment(is_blocked=True))
    world.sock.unwatch()
    world.sock.close()
    world.until(150)
    world.impair()
    with pytest.raises(ConnectionResetError):
        world.peer.recv(1)
    assert world.gone == [world.sock]


def test_a_reset_is_seen_at_both_ends(world: World) -> None:
    world.sock.reset()
    world.settle()
    assert world.owner.end == "ConnectionResetError"
    with pytest.raises(ConnectionResetError):
        world.peer.recv(1)


@pytest.mark.parametrize("who", ["peer", "owner"])
def test_a_new_connection_is_reset_by_its_first_byte(world: World, who: str) -> None:
    impairment = Impairment(is_reset=True)
    world.impair(inbound=impairment) if who == "peer" else world.impair(outbound=impairment)
    assert world.owner.end == ""
    if who == "peer":
        world.arrive(b"x")
    else:
        with pytest.raises(ConnectionResetError):
            world.owner.send(b"x")
        world.settle()
    assert world.owner.end == "ConnectionResetError"
    with pytest.raises(ConnectionResetError):
        world.peer.recv(1)


def test_a_cut_ends_the_stream_within_what_was_sent(world: World) -> None:
    world.impair(inbound=Impairment(cut_after=6))
    world.arrive(b"abcdefghij")
    assert (bytes(world.owner.got), world.owner.end) == (b"abcdef", "closed")
    with pytest.raises(ConnectionResetError):
        world.peer.recv(1)


def test_a_cut_of_what_goes_out(world: World) -> None:
    world.impair(outbound=Impairment(cut_after=6))
    world.owner.send(b"abcdefghij")
    world.settle()
    assert world.peer_gets(100) == b"abcdef"
    assert world.owner.end == "ConnectionResetError"


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_slices_arrive_one_by_one(world: World, gap: float) -> None:
    world.impair(inbound=Impairment(segment=3, gap=gap))
    sizes: list[int] = []
    on_ready = world.owner.on_ready

    def note(events: int) -> None:
        before = len(world.owner.got)
        on_ready(events)
        sizes.append(len(world.owner.got) - before)

    world.sock.watch(READ, note)
    world.arrive(b"abcdefgh")
    world.until(10)
    assert world.owner.got == b"abcdefgh"
    assert sizes == [3, 3, 2]


def test_limited_bandwidth_slows_down_the_sender(world: World) -> None:
    world.impair(inbound=Impairment(bytes_per_second=1000))
    world.arrive(bytes(3000))
    world.until(1)
    assert 900 <= len(world.owner.got) <= 1100
    world.until(3.1)
    assert len(world.owner.got) == 3000


def test_an_owner_that_stops_reading_gets_no_bytes_until_it_resumes(world: World) -> None:
    world.impair(inbound=Impairment(latency=1))
    world.arrive(b"abc")
    world.sock.watch(WRITE, world.owner.on_ready)
    world.sock.unwatch()
    world.until(5)
    assert world.owner.got == b""
    world.sock.watch(READ, world.owner.on_ready)
    world.settle()
    assert world.owner.got == b"abc"
