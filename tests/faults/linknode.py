"""A server and clients in one process, with faults of links between them."""

import contextlib
from collections.abc import AsyncIterator, Callable

import attrs
import trio

from rmqlab.faults import FAULTS
from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.process import node_faults
from rmqlab.faults.rules import LinkRule, NodeRules
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.dispatch import Dispatcher, Reply, Request, Route, handler_table
from rmqlab.runtime.net.node_faults import NodeFaults
from rmqlab.runtime.net.reactor import open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.server import Server

ECHO = RequestCode.HEART_BEAT
HERE, THERE, ELSEWHERE = "127.0.0.1", "127.0.0.2", "127.0.0.3"
LONG = 60.0


HELD = b"reply later"


def echo(held: list[Request], _header: None, asked: Request) -> Reply | None:
    if asked.command.body == HELD:
        held.append(asked)
        return None
    return Reply(body=asked.command.body)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 -- nobody would set an event
        await trio.sleep(0.01)


@attrs.define(eq=False)
class Node:
    """A server with faults of its own; `ask` asks it from an address."""

    server: Server[list[Request]]
    held: list[Request]
    faults: NodeFaults
    address: str
    nursery: trio.Nursery
    clients: dict[str, RemotingClient]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    async def ask(self, source: str = THERE, body: bytes = b"?", timeout: float = LONG) -> bytes:  # noqa: ASYNC109
        answer = await self.clients[source].request(self.address, request(ECHO, body=body), timeout)
        return answer.body

    def play(self, *rules: LinkRule) -> None:
        self.faults.set(NodeRules(links=rules).to_plain())

    def heal(self) -> None:
        self.play()

    async def channel(self, source: str = THERE) -> Channel:
        return await self.clients[source].channel(self.address)


@contextlib.asynccontextmanager
async def open_node() -> AsyncIterator[Node]:
    """Serve until the block ends."""
    faults = node_faults()
    table = handler_table([Route(ECHO, None, echo)])
    async with (
        open_reactor(faults) as reactor,
        open_reactor() as others,
        trio.open_nursery() as nursery,
    ):
        held = list[Request]()
        server = Server(reactor, Dispatcher(table, held))
        host, port = server.listen(HERE, 0)
        clients = {source: RemotingClient(others, source_ip=source) for source in (HERE, THERE, ELSEWHERE)}
        yield Node(server, held, faults, f"{host}:{port}", nursery, clients)
        for client in clients.values():
            client.close()
        server.close()
        nursery.cancel_scope.cancel()


def rule(kind: str, *, out: bool = False, number: int = 1, **fields: object) -> LinkRule:
    """A rule for bytes from THERE, or where the fields say.

    All other fields are values of the fault.
    """
    where = {key: fields.pop(key) for key in ("hosts", "not_in", "addresses", "ports") if key in fields}
    if not {"not_in", "addresses"} & where.keys():
        where.setdefault("hosts", (THERE,))
    fault = FAULTS.fault_of({"type": "link", "src": "a", "dst": "b", "kind": kind, **fields})
    assert isinstance(fault, LinkFault)
    return LinkRule(id=f"f{number}", fault=fault, is_outbound=out, **where)  # type: ignore[arg-type]
