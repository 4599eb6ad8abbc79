"""Master and slave together, over loopback sockets."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import pytest
import trio

from broker.ha.master import HaMaster
from broker.ha.settings import HaSettings
from broker.ha.slave import HaSlave
from broker.ha.testing import FileSize, MemoryLog
from remoting.reactor import Reactor

AT_ONCE = HaSettings(ha_report_at_once=True)


@attrs.define
class Changes:
    """What the two sides told; lets a test wait for a condition."""

    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    acks: list[int] = attrs.field(factory=list)
    _changed: trio.Event = attrs.field(factory=trio.Event)

    def note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def emit(self, kind: str, **fields: Any) -> None:
        self.events.append((kind, fields))
        self.note()

    def acked(self, offset: int) -> None:
        self.acks.append(offset)
        self.note()

    async def wait(self, is_true: Callable[[], bool]) -> None:
        while not is_true():
            await self._changed.wait()

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]


@attrs.define
class Pair:
    reactor: Reactor
    changes: Changes
    master_log: MemoryLog
    slave_log: MemoryLog
    master: HaMaster
    slave: HaSlave
    address: str


@pytest.fixture
async def pair(nursery: trio.Nursery) -> AsyncIterator[Pair]:
    reactor, changes = Reactor(), Changes()
    master_log, slave_log = MemoryLog(FileSize(65_536)), MemoryLog(FileSize(65_536))
    master = HaMaster(reactor, master_log, AT_ONCE, on_ack=changes.acked, emit=changes.emit)
    slave = HaSlave(reactor, slave_log, AT_ONCE, on_received=changes.note, emit=changes.emit)
    host, port = master.listen("127.0.0.1", 0)
    nursery.start_soon(reactor.run_forever)
    nursery.start_soon(master.run_forever)
    nursery.start_soon(slave.run_forever)
    yield Pair(reactor, changes, master_log, slave_log, master, slave, f"{host}:{port}")
    nursery.cancel_scope.cancel()
    master.close()


async def test_a_slave_gets_what_the_master_has_and_what_it_appends(pair: Pair) -> None:
    """store-ha#45, #42: equal bytes, acknowledged."""
    pair.master_log.append(bytes(range(256)) * 200)
    pair.slave.set_master(pair.address)
    await pair.changes.wait(lambda: pair.master.push_to_slave_max_offset == 51_200)
    pair.master_log.append(b"more" * 10_000)
    pair.master.push()
    await pair.changes.wait(lambda: pair.master.push_to_slave_max_offset == 91_200)
    assert pair.slave_log.data == pair.master_log.data
    assert pair.changes.acks[-1] == 91_200
    assert set(pair.changes.kinds()) == {"ha_connected", "ha_client_connected", "ha_first_report"}
