"""Faults of links on real sockets of one process: a server and clients.

Each client has an address of its own.
"""

import contextlib
import socket
import sys

import attrs
import pytest
import trio

from rmqlab.faults.link.hook import LinkFaults
from rmqlab.faults.process import node_faults
from rmqlab.faults.rules import NodeRules
from rmqlab.remoting.command import Command, request
from rmqlab.runtime.net.dispatch import Dispatcher, Reply
from rmqlab.runtime.net.reactor import open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import ConnectError, ConnectionLostError, RequestTimeoutError
from rmqlab.runtime.net.server import Server
from tests.faults.linknode import ECHO, ELSEWHERE, HELD, HERE, LONG, THERE, Node, rule, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is Linux's")


async def test_a_rule_is_for_one_peer_and_begins_and_ends_under_a_live_connection(node: Node) -> None:
    assert await node.ask() == b"?"
    channel = await node.channel()
    node.play(rule("blackhole"))
    with pytest.raises(RequestTimeoutError):
        await channel.request(request(ECHO), 0.3)
    assert await node.ask(ELSEWHERE) == b"?"
    assert not channel.is_closed
    answers: list[bytes] = []

    async def ask() -> None:
        answers.append((await channel.request(request(ECHO, body=b"late"), LONG)).body)

    node.nursery.start_soon(ask)
    node.heal()
    await until(lambda: bool(answers))
    assert answers == [b"late"]


async def test_a_connection_that_reads_nothing_is_healed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for no event when it gets its own socket back."""
    for limit in ("MAX_PARKED", "SCARCE_MAX_PARKED"):
        monkeypatch.setattr(f"rmqlab.runtime.net.channel.{limit}", 1)
    channel = await node.channel()
    node.play(rule("latency", millis=1.0))
    answers: list[Command | None] = []
    for body in (HELD, b"kept until the first one has its reply"):
        channel.send_request(request(ECHO, body=body), answers.append)
    await until(lambda: bool(node.held))
    node.heal()
    (there,) = node.server.channels
    await until(lambda: isinstance(there._sock, socket.socket))
    node.held[0].reply(Reply())
    await until(lambda: len(answers) == 2)
    assert None not in answers
    assert await node.ask() == b"?"


@pytest.mark.parametrize("out", [False, True])
async def test_of_a_blackhole_only_the_one_direction_is_lost(node: Node, *, out: bool) -> None:
    channel = await node.channel()
    await node.ask()
    (there,) = [one for one in node.server.channels if one.peer.startswith(THERE)]
    node.play(rule("blackhole", out=out))
    before = there.last_active_at
    with pytest.raises(RequestTimeoutError):
        await channel.request(request(ECHO), 0.3)
    assert (there.last_active_at > before) is out  # the SYN arrives and its reply is lost, or the SYN is lost


async def test_an_end_under_a_blackhole_is_seen_when_it_is_healed(node: Node) -> None:
    await node.ask()
    node.play(rule("blackhole"), rule("blackhole", out=True, number=2))
    node.clients[THERE].close()
    with trio.move_on_after(0.3):
        await until(lambda: not node.server.channels)
    assert len(node.server.channels) == 1
    node.heal()
    await until(lambda: not node.server.channels)


async def test_a_connection_made_in_a_blackhole_is_accepted_after_the_heal(node: Node) -> None:
    node.play(rule("blackhole", not_in=("127.77.0.",)))
    channel = await node.channel()  # from outside: the system answers, we cannot help it
    with pytest.raises(RequestTimeoutError):
        await channel.request(request(ECHO), 0.2)
    assert not node.server.channels
    node.heal()
    assert (await channel.request(request(ECHO, body=b"now"), LONG)).body == b"now"


async def test_connecting_into_a_blackhole_fails_after_the_connect_timeout(node: Node) -> None:
    async with open_reactor(node.faults) as reactor:
        client = RemotingClient(reactor, connect_timeout=0.2)
        node.play(rule("blackhole", out=True, hosts=(HERE,)))
        with pytest.raises(ConnectError, match=r"within 0\.2 s"):
            await client.channel(node.address)
        node.play(rule("blackhole", hosts=(HERE,)))  # the answer would not come
        with pytest.raises(ConnectError, match=r"within 0\.2 s"):
            await client.channel(node.address)


async def test_connecting_succeeds_after_the_blackhole_ends(node: Node) -> None:
    async with open_reactor(node.faults) as reactor:
        client = RemotingClient(reactor, connect_timeout=LONG)
        node.play(rule("blackhole", out=True, addresses=(node.address,)))

        async def heal() -> None:
            await trio.testing.wait_all_tasks_blocked(0.01)
            node.heal()

        node.nursery.start_soon(heal)
        assert not (await client.channel(node.address)).is_closed
        client.close()


async def test_refused_are_new_connections_only(node: Node) -> None:
    async with open_reactor(node.faults) as reactor:
        client = RemotingClient(reactor)
        await client.request(node.address, request(ECHO), LONG)
        node.play(rule("refuse", out=True, hosts=(HERE,)))
        assert (await client.request(node.address, request(ECHO), LONG)).code == 0
        client.close_channel(node.address, "to connect anew")
        with pytest.raises(ConnectError, match="refused"):
            await client.channel(node.address)


async def test_a_refused_connection_from_outside_is_reset(node: Node) -> None:
    node.play(rule("refuse", not_in=("127.77.0.",)))
    with pytest.raises((ConnectError, ConnectionLostError)):
        await node.ask()


async def test_a_reset_ends_live_connections_at_once_and_new_ones_at_their_first_byte(node: Node) -> None:
    channel = await node.channel()
    await node.ask()
    node.play(rule("reset"))
    await until(lambda: channel.is_closed)
    assert channel.close_reason == "Connection reset by peer"
    with pytest.raises(ConnectionLostError):
        await node.ask()
    assert await node.ask(ELSEWHERE) == b"?"


async def test_latency_is_added_to_each_answer(node: Node) -> None:
    await node.ask()
    node.play(rule("latency", millis=100.0, jitter_millis=20.0), rule("latency", out=True, millis=100.0, number=2))
    began = trio.current_time()
    assert await node.ask() == b"?"
    assert trio.current_time() - began >= 0.2


@pytest.mark.parametrize("out", [False, True])
async def test_frames_outlive_losses_and_reordering(node: Node, *, out: bool) -> None:
    body = bytes(range(256)) * 200
    await node.ask()
    node.play(rule("loss", out=out, percent=20), rule("reorder", out=out, percent=50, number=2))
    for _ in range(3):
        assert await node.ask(body=body) == body
    assert await node.ask(ELSEWHERE) == b"?"


@pytest.mark.usefixtures("autojump_clock")
async def test_a_lost_syn_delays_a_connect(node: Node) -> None:
    """The rule is at the node that connects; two SYNs are lost."""
    faults = node_faults()
    async with open_reactor(faults) as reactor:
        client = RemotingClient(reactor, source_ip=THERE)
        links = reactor.links
        assert isinstance(links, LinkFaults)
        faults.set(NodeRules(links=(rule("loss", percent=99, out=True, hosts=(HERE,)),)).to_plain())
        draws = iter([0.0, 0.0])
        links._chance.random = lambda: next(draws, 1.0)  # type: ignore[method-assign]
        began = trio.current_time()
        await links.dial(HERE, node.port)
        assert trio.current_time() - began >= 3.0
        client.close()


async def test_a_slow_reader_lets_its_peer_keep_the_bytes(node: Node) -> None:
    channel = await node.channel()
    await node.ask()
    (served,) = node.server.channels
    before = served._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)  # type: ignore[union-attr]
    node.play(rule("slow-reader", read_bytes=1000.0, window_bytes=4096))
    answers: list[bytes] = []

    async def ask() -> None:
        answers.append((await channel.request(request(ECHO, body=bytes(12 * 2**20)), LONG)).body)

    node.nursery.start_soon(ask)
    await until(lambda: channel._owed > 2**20)  # the system's buffers are full
    with trio.move_on_after(0.2):
        await until(lambda: channel._owed == 0)
    assert channel._owed > 2**20
    assert await node.ask(ELSEWHERE) == b"?"
    node.heal()
    await until(lambda: bool(answers))
    assert answers == [bytes(12 * 2**20)]
    await until(lambda: isinstance(served._sock, socket.socket))
    assert served._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= before  # type: ignore[union-attr]


@pytest.mark.parametrize("is_backlog_full", [False, True])
async def test_a_full_table_keeps_new_connections_and_serves_them_after_the_heal(
    node: Node, *, is_backlog_full: bool
) -> None:
    await node.ask()
    (known,) = node.server.channels
    node.play(rule("full-table", is_backlog_full=is_backlog_full, not_in=("10.",)))
    assert await node.ask() == b"?"
    with pytest.raises(RequestTimeoutError):
        await node.ask(ELSEWHERE, timeout=0.3)
    assert [*node.server.channels] == [known]
    node.heal()
    assert await node.ask(ELSEWHERE) == b"?"
    assert len(node.server.channels) == 2


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize(
    ("options", "takes"),
    [
        ({"out": True}, True),  # at a single address: the peer cannot keep it back
        ({"out": True, "is_enforced_here": False}, False),
        ({"out": True, "is_enforced_here": False, "is_backlog_full": True}, True),
        ({"out": False, "is_backlog_full": True}, False),  # that is for connects of the peer
    ],
)
async def test_a_connect_to_a_full_table_hangs_only_if_its_backlog_is_full(
    node: Node, options: dict[str, bool], *, takes: bool
) -> None:
    faults = node_faults()
    async with open_reactor(faults) as reactor:
        is_enforced_here = options.pop("is_enforced_here", True)
        made = attrs.evolve(rule("full-table", hosts=(HERE,), **options), is_enforced_here=is_enforced_here)
        faults.set(NodeRules(links=(made,)).to_plain())
        links = reactor.links
        assert isinstance(links, LinkFaults)
        with trio.move_on_after(5) as scope:
            await links.dial(HERE, node.port)
        assert scope.cancelled_caught is takes


@pytest.mark.parametrize("out", [False, True])
async def test_large_frames_pass_through_every_impairment_unharmed(node: Node, *, out: bool) -> None:
    body = bytes(range(256)) * 2000
    await node.ask()
    node.play(
        rule("slice", out=out, segment_bytes=1000),
        rule("latency", out=out, millis=5.0, jitter_millis=5.0, number=2),
        rule("bandwidth", out=out, bytes_per_second=5e6, number=3),
    )
    assert await node.ask(body=body) == body
    node.heal()
    assert await node.ask(body=body) == body


async def test_a_frame_that_is_cut_is_lost_and_its_connection_closed(node: Node) -> None:
    node.play(rule("cut", after_bytes=10))
    with pytest.raises(ConnectionLostError):
        await node.ask()
    node.heal()
    assert await node.ask() == b"?"


@pytest.mark.parametrize("out", [False, True])
async def test_corruption_counts_over_all_connections_and_changes_of_rules(node: Node, *, out: bool) -> None:
    await node.ask()
    corruption = rule("corrupt", out=out, every_bytes=400_000, count=2, not_in=("10.",))
    node.play(corruption)
    wrong = 0
    body = bytes(100_000)
    for number in range(40):
        with contextlib.suppress(ConnectionLostError, RequestTimeoutError):  # it can hit the frame's header
            wrong += await node.ask((THERE, ELSEWHERE)[number % 2], body, timeout=5) != body
        node.play(corruption, rule("latency", millis=0.1, number=2))
    assert wrong == 2
    node.heal()
    assert await node.ask(body=body) == body


async def test_only_the_port_that_is_meant(node: Node) -> None:
    other = node.server.listen(HERE, 0)[1]
    node.play(rule("blackhole", ports=(other,)))
    assert await node.ask() == b"?"
    client = node.clients[THERE]
    with pytest.raises(RequestTimeoutError):
        await client.request(f"{HERE}:{other}", request(ECHO), 0.2)


async def test_healed_connections_have_their_own_sockets_again(node: Node) -> None:
    await node.ask()
    (channel,) = node.server.channels
    node.play(rule("latency", millis=1.0))
    assert not isinstance(channel._sock, socket.socket)
    await node.ask()
    node.heal()
    await until(lambda: isinstance(channel._sock, socket.socket))
    assert await node.ask() == b"?"


async def test_remaining_sockets_are_closed_when_the_process_ends() -> None:
    """Warnings are errors: a socket left open would be one."""
    faults = node_faults()
    with contextlib.closing(socket.socket()) as peer:
        async with open_reactor(faults) as reactor:
            server: Server[None] = Server(reactor, Dispatcher({}, None))
            faults.set(NodeRules(links=(rule("blackhole", not_in=("10.",)),)).to_plain())
            peer.connect(server.listen(HERE, 0))
            links = reactor.links
            assert isinstance(links, LinkFaults)
            await until(lambda: bool(links._limbo))
            server.close()
