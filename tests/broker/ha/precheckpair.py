"""A master that listens, and a slave that examines it before it follows."""

from collections.abc import Callable
from typing import Any

import attrs
import trio

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.master_precheck import (
    Identity,
    MasterPrecheck,
)
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.broker.ha.testing import Recorder
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.truncate import truncate

FILE = 65_536
OUR_CLUSTER = Identity("DefaultCluster", "broker-a")


@attrs.define
class Line:
    """In the place of a RemotingClient: every address leads to one broker."""

    broker: TalkingBroker
    refuses: set[int] = attrs.field(factory=set)
    fails_with: Exception | None = None
    asked: list[tuple[str, int]] = attrs.field(factory=list)

    async def request(self, address: str, command: Command, _timeout: float) -> Command:
        await trio.lowlevel.checkpoint()
        self.asked.append((address, command.code))
        if self.fails_with is not None:
            raise self.fails_with
        if command.code in self.refuses:
            return Command(ResponseCode.NO_PERMISSION, remark="not for you")
        return self.broker.serve(command)[0]


@attrs.define
class Pair:
    """A master that listens, and a slave that may follow it."""

    reactor: Reactor
    nursery: trio.Nursery
    recorder: Recorder
    master: TalkingBroker
    ha: HaMaster
    slave: TalkingBroker
    line: Line
    ha_address: str
    identity: Identity = OUR_CLUSTER
    ends_before_cuts: list[int] = attrs.field(factory=list)
    """Ends of the slave's log when slaves of its own were warned of a cut; 0 if it was emptied."""

    @property
    def source(self) -> MessageStore:
        return self.master.broker.store

    @property
    def copy(self) -> MessageStore:
        return self.slave.broker.store

    def examination(self, known_master: KnownMaster | None = None) -> MasterPrecheck:
        line: Any = self.line
        return MasterPrecheck(
            self.copy,
            self.identity,
            line,
            self.recorder.emit,
            known_master or KnownMaster(),
            before_cut=lambda: self.ends_before_cuts.append(self.copy.max_commit_log_offset),
        )

    async def is_fit(self, **switches: bool) -> bool:
        return await self.examination().is_fit(self.ha_address, HaSettings(**switches))  # type: ignore[arg-type]

    def follow(self, **switches: bool) -> None:
        """Let the slave run, at once."""
        settings = HaSettings(ha_report_at_once=True, ha_master_address=self.ha_address, **switches)

        def received() -> None:
            self.copy.dispatch()
            self.recorder.changed()

        slave = HaSlave(
            self.reactor,
            self.copy,
            settings,
            KnownMaster.from_settings(settings),
            on_received=received,
            master_check=self.examination(),
            emit=self.recorder.emit,
        )
        self.nursery.start_soon(slave.run_forever)

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(60):
            await self.recorder.wait_until(holds)

    async def until_caught_up(self) -> None:
        await self.until(lambda: self.copy.max_commit_log_offset == self.source.max_commit_log_offset)


def send(talk: TalkingBroker, count: int, text: str, *, size: int = 1000) -> None:
    for number in range(count):
        talk.send("T", number % 4, text.encode() * (size // len(text)))


def replicate(source: MessageStore, copy: MessageStore, end: int | None = None) -> None:
    end = source.max_commit_log_offset if end is None else end
    while (at := copy.max_commit_log_offset) < end:
        assert copy.append_raw(at, source.read_log(at, end - at))
    copy.dispatch()


def lose(talk: TalkingBroker, end: int) -> None:
    """What a power loss and a restart make of a master."""
    truncate(talk.broker.store, end)


def log_bytes(store: MessageStore, start: int = 0) -> bytes:
    parts = []
    while view := store.read_log(start, 2**20):
        parts.append(bytes(view))
        start += len(view)
    return b"".join(parts)


def part_ways(pair: Pair, *, slave_has: int = 30, master_keeps: int = 20, master_adds: int = 0) -> int:
    """Scenario 16: the slave has records that its master lost.

    Returns the offset of the first difference.
    """
    send(pair.master, master_keeps, "common")
    common = pair.source.max_commit_log_offset
    send(pair.master, slave_has - master_keeps, "lost")
    replicate(pair.source, pair.copy)
    lose(pair.master, common)
    send(pair.master, master_adds, "others!")
    return common
