"""DLedger groups of brokers of both kinds, from RocketMQ's own settings."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from rmqlab.dledger.codes import DLedgerRequestCode
from rmqlab.dledger.entry import EntryHeader
from tests.interop import kinds, rawrequest
from tests.interop.child import Child
from tests.interop.java import Java
from tests.interop.ours import OurBroker
from tests.interop.realrocketmq import RealBroker
from tests.interop.server import BROKER_NAME, BrokerServer, free_port
from tests.interop.waiting import wait_until

ROOT = Path(__file__).parents[2]
SLOW = 120.0
"""Seconds for an election or a catch-up while others work."""
FILES = {"mappedFileSizeCommitLog": 2**20, "mappedFileSizeConsumeQueue": 20 * 1000}


class OurMember(OurBroker):
    """A member is ready when it listens: there is no route without a leader."""

    def is_in_route(self) -> bool:
        return True

    def spawn(self, config: Path) -> Child:
        return Child(self.name, [sys.executable, "-m", "tests.interop.isolatable", str(config)], cwd=ROOT)


class RealMember(RealBroker):
    """As ours."""

    def is_in_route(self) -> bool:
        return True


@attrs.define
class LedgerGroup:
    """The members n0, n1, ... of one group; `servers` has those that run."""

    java: Java
    directory: Path
    namesrv: str
    peers: str
    settings: Mapping[str, object] = attrs.field(factory=dict)
    """Of all members."""
    members: dict[str, BrokerServer] = attrs.field(factory=dict)
    kinds: dict[str, str] = attrs.field(factory=dict)
    servers: dict[str, BrokerServer] = attrs.field(factory=dict)

    def put(self, peer: str, kind: str) -> None:
        """Make a member of this kind, on the store of this id."""
        self.kinds[peer] = kind
        store = self.directory / peer / "store"
        self.members[peer] = _member(
            kind, self.java, self.directory / peer / kind, self.namesrv, self.peers, peer, store, self.settings
        )

    def start(self, *peers: str) -> None:
        for peer in peers:
            self.servers[peer] = self.members[peer]
            self.members[peer].start()

    def kill(self, *peers: str) -> None:
        for peer in peers:
            self.servers.pop(peer).kill()

    def stop(self, *peers: str) -> None:
        for peer in peers:
            self.servers.pop(peer).stop()

    def paused(self, peer: str) -> contextlib.AbstractContextManager[None]:
        """A process that neither runs nor ends."""
        return self._away(peer, signal.SIGSTOP, signal.SIGCONT)

    def isolated(self, peer: str) -> contextlib.AbstractContextManager[None]:
        """One of our members, whose packets vanish, and which goes on."""
        return self._away(peer, signal.SIGUSR1, signal.SIGUSR2)

    @contextlib.contextmanager
    def _away(self, peer: str, begin: signal.Signals, end: signal.Signals) -> Iterator[None]:
        """Between two signals a member is none of the `servers`."""
        server = self.servers.pop(peer)
        os.kill(server.pid, begin)
        try:
            yield
        finally:
            os.kill(server.pid, end)
            self.servers[peer] = server

    def leader(self) -> str:
        """Wait until a running member is the master of the route and takes messages."""
        return wait_until(self._serving_leader, "a leader that takes messages", SLOW)

    def _serving_leader(self) -> str | None:
        master = rawrequest.route_of(self.namesrv, BROKER_NAME).get(BROKER_NAME, {}).get(0)
        for peer, server in self.servers.items():
            if server.address == master and self.try_send(peer, b"are you the leader?") == rawrequest.SUCCESS:
                return peer
        return None

    def try_send(self, peer: str, body: bytes, queue_id: int = 0) -> int:
        return rawrequest.send(self.servers[peer].address, BROKER_NAME, body, queue_id=queue_id).code

    def bodies(self, peer: str, queue_id: int = 0) -> list[bytes]:
        """Return all messages of a queue, as a consumer of this member reads them."""
        address, read = self.servers[peer].address, list[bytes]()
        while True:
            answer, bodies = rawrequest.pull(address, BROKER_NAME, queue_id, len(read))
            if answer.code != rawrequest.SUCCESS:
                return read
            read += bodies

    def transfer(self, leader: str, transferee: str) -> dict[str, Any]:
        """Ask the leader to hand over, as DLedger's own tool does; its response."""
        saved = (self.directory / leader / "store" / f"dledger-{leader}" / "currterm").read_text()
        address = dict(each.split("-", 1) for each in self.peers.split(";"))[leader]
        return rawrequest.dledger(
            address,
            DLedgerRequestCode.LEADERSHIP_TRANSFER,
            group=BROKER_NAME,
            remoteId=leader,
            transferId=leader,
            transfereeId=transferee,
            term=int(saved.partition("currTerm=")[2].split()[0]),
        )

    def wait_same(self) -> None:
        """Wait until all running members serve the same number of messages in queue 0."""

        def is_same() -> bool:
            ends = {rawrequest.max_offset(server.address, BROKER_NAME, 0) for server in self.servers.values()}
            return len(ends) == 1

        wait_until(is_same, "the same queue at all members", SLOW)

    def entries(self, peer: str) -> bytes:
        """Return the entries on a member's disk, without what follows the last one."""
        files = sorted((self.directory / peer / "store" / f"dledger-{peer}" / "data").glob("*"))
        return b"".join(_whole_entries(file.read_bytes(), int(file.name)) for file in files)


def _whole_entries(raw: bytes, first: int) -> bytes:
    at = 0
    while at + 48 <= len(raw):
        header = EntryHeader.decode(raw, at)
        if not header.is_valid_at(first + at):
            break
        at += header.size
    return raw[:at]


@contextlib.contextmanager
def ledger_group(
    java: Java, directory: Path, member_kinds: Sequence[str], *, nameserver: str = "ours", **settings: object
) -> Iterator[LedgerGroup]:
    """A nameserver and a group, none of whose members runs yet."""
    ports = [free_port() for _ in member_kinds]
    peers = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(ports))
    with kinds.nameserver(nameserver, java, directory) as running:
        group = LedgerGroup(java, directory, running.address, peers, settings)
        for number, kind in enumerate(member_kinds):
            group.put(f"n{number}", kind)
        try:
            yield group
        finally:
            for member in group.members.values():
                member.kill()


def _member(
    kind: str,
    java: Java,
    directory: Path,
    namesrv: str,
    peers: str,
    peer: str,
    store: Path,
    settings: Mapping[str, object],
) -> BrokerServer:
    """A member that is not started yet."""
    values: dict[str, object] = {
        **FILES,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "brokerRole": "ASYNC_MASTER",
        "enableDLegerCommitLog": "true",
        "dLegerGroup": BROKER_NAME,
        "dLegerPeers": peers,
        "dLegerSelfId": peer,
        **settings,
    }
    if kind == "ours":
        return OurMember(directory, namesrv, settings=values)
    return RealMember(java, directory, namesrv, settings=values)
