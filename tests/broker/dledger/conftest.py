"""A group of three brokers on a DLedger log, in one process, on real sockets."""

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
import trio

from rmqlab.broker.testing import pull_fields
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command, request
from tests.broker.brokerprocess import HOSTS, PATIENCE, Running, World
from tests.dledger.stores import unmapped_at_end

PORT = 40911
PEERS = ";".join(f"n{number}-{host}:{PORT}" for number, host in enumerate(HOSTS))


@pytest.fixture(autouse=True)
def closed_stores() -> Iterator[None]:
    with unmapped_at_end():
        yield


@attrs.define
class Trio:
    """The members by their ids, while they run."""

    world: World
    running: dict[str, Running] = attrs.field(factory=dict)

    async def start(self, *ids: str, **settings: Any) -> None:
        async with trio.open_nursery() as nursery:
            for peer in ids:
                nursery.start_soon(self._start, peer, settings)

    async def _start(self, peer: str, settings: dict[str, Any]) -> None:
        member = {
            "enable_dleger_commit_log": "true",
            "d_leger_group": "broker-a",
            "d_leger_peers": PEERS,
            "d_leger_self_id": peer,
        }
        self.running[peer] = await self.world.start(peer, HOSTS[int(peer[1:])], **(member | settings))

    async def stop(self, *ids: str) -> None:
        for peer in ids or tuple(self.running):
            await self.running.pop(peer).stop()

    def snapshot(self, peer: str) -> Any:
        return self.running[peer].link.snapshot()

    @property
    def masters(self) -> list[str]:
        return [peer for peer in self.running if self.snapshot(peer)["role"] == "SYNC_MASTER"]

    async def leader(self) -> str:
        """Wait until one member leads, and is registered as master."""
        await self.until(lambda: len(self.masters) == 1)
        (leader,) = self.masters
        address = self.running[leader].address
        await self.until(lambda: self.world.nameserver.brokers[0].broker_addr == address)
        return leader

    async def until(self, holds: Callable[[], Any]) -> None:
        await self.world.until(holds)

    async def send(self, peer: str, body: bytes, **properties: str) -> Command:
        return await self.world.send(self.running[peer], body, **properties)

    async def pull(self, peer: str, offset: int = 0, **fields: Any) -> Command:
        command = request(RequestCode.PULL_MESSAGE, pull_fields("BenchmarkTest", offset=offset, **fields))
        return await self.world.client.request(self.running[peer].address, command, PATIENCE)

    async def all_dispatched(self) -> None:
        """Wait until all running members have and serve the same messages."""

        def ends() -> set[tuple[int, int]]:
            logs = [self.snapshot(peer)["commit_log"] for peer in self.running]
            return {(log["max"], log["dispatched"]) for log in logs}

        await self.until(lambda: len(ends()) == 1 and all(max_ == done for max_, done in ends()))


@pytest.fixture
async def group(world: World) -> Trio:
    """No member runs yet."""
    return Trio(world)
