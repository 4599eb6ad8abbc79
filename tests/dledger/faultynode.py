"""One member of a simulated group: its files, and the process while it runs."""

import functools
import random
import zlib
from pathlib import Path
from typing import Final

import attrs

from rmqlab.dledger.entry import HEADER, Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Member, load_ballot, save_ballot
from rmqlab.dledger.recovery import BodyChecks
from rmqlab.dledger.server import Call, Server
from tests.dledger.volatiledisk import VolatileDisk

DATA_FILE: Final = 2048
INDEX_FILE: Final = 64 * 32


@attrs.frozen(eq=False)
class Caller:
    """A call that waits for its response; without a call it is an operator's."""

    sender: "Node | None"
    call: Call | None = None
    epoch: int = 0
    """The resets of the connection before it."""
    is_ended: list[bool] = attrs.field(factory=list)


@attrs.frozen(eq=False)
class Appended:
    """An append that waits: its entries are filled in once it was accepted.

    They may have expired when a quorum has them.
    """

    entries: list[Entry] = attrs.field(factory=list)


GroupServer = Server[Appended, Caller]


def is_whole(body: bytes | memoryview) -> bool:
    """Return True for a body that begins with the checksum of the rest."""
    return len(body) > 4 and zlib.crc32(body[4:]).to_bytes(4, "big") == bytes(body[:4])


def whole_body(content: bytes) -> bytes:
    """Return a body with its checksum."""
    return zlib.crc32(content).to_bytes(4, "big") + content


@attrs.define(eq=False)
class Node:
    """One member: its files, and the process while it runs."""

    settings: GroupSettings
    root: Path
    chance: random.Random
    disk: VolatileDisk = attrs.field(init=False)
    server: GroupServer | None = None
    starts: int = 0
    wake_at: int = 2**62
    """Time of the next planned turn."""
    paused_until: int = 0
    is_flush_planned: bool = False

    def __attrs_post_init__(self) -> None:
        self.disk = VolatileDisk(self.chance)

    @property
    def name(self) -> str:
        return self.settings.self_id

    @property
    def start_name(self) -> str:
        """Name of this start of the process."""
        return f"{self.name}#{self.starts}"

    @property
    def running(self) -> GroupServer:
        assert self.server is not None
        return self.server

    def start(self) -> None:
        """Start on the files that are there."""
        self.starts += 1
        self.is_flush_planned = False
        checks = BodyChecks(is_whole, lambda view, at, header: not is_whole(view[at + HEADER.size : at + header.size]))
        store = EntryStore.open(self.root, DATA_FILE, INDEX_FILE, disk=self.disk, checks=checks)
        save = functools.partial(save_ballot, self.disk, self.root)
        member = Member(self.settings, save, load_ballot(self.disk, self.root))
        self.server, self.wake_at, self.paused_until = Server.of(member, store, self.chance.randrange), 2**62, 0

    def kill(self) -> None:
        """Lose all but the files."""
        if self.server is not None:
            self.server.store.unmap()
            self.server = None

    def lose_power(self) -> None:
        """Lose unsynced bytes, too, but no more than those of a data file."""
        store = None if self.server is None else self.server.store
        if store is not None and store.synced_end < store.data.max_offset - DATA_FILE:
            self.disk.failures = 0.0
            store.flush()
        self.kill()
        self.disk.lose_power(self.root)
