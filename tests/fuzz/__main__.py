"""Hostile input for minutes to every socket of a cluster, and to our clients.

Run it: `make fuzz`. Batches take turns among the targets; each follows from the seed and its number alone. After each,
the nodes are examined (`health`). Exit status 0: nothing found; 1: something was, and which batch it was.
"""

import argparse
import contextlib
import functools
import itertools
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import trio

from rmqlab.broker.handlers import HANDLERS as BROKER_HANDLERS_OF_4_9
from rmqlab.broker.handlers import HANDLERS_OF_5X
from rmqlab.cluster.control.access import ControlAccess
from rmqlab.cluster.control.app import ControlApp
from rmqlab.cluster.control.server import ControlServer
from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.plan.topology import DLEDGER, ClusterSpec, NodeKind
from rmqlab.nameserver.handlers import HANDLERS as NAMESERVER_HANDLERS
from rmqlab.remoting.codes import RequestCode
from rmqlab.runtime.net.dispatch import Route
from tests.fuzz import dledger, frames, health, http
from tests.fuzz.crowd import crowd
from tests.fuzz.evil import EvilServer, serve_ha
from tests.fuzz.odd import Odd
from tests.fuzz.process import Victim

BATCH = 400
PIPELINED = 20
"""Requests sent together; the reply to a well-formed one after them ends the wait."""
EXAMINED_EVERY = 10
"""Batches between two examinations of the nodes' health."""
WARM_UP = 40
"""Batches before the nodes are measured: the topics of the pool are there by then, and the interpreter is warm."""
OWN_FILES = {"lab", "group", "store", "slave.toml", "slave.log", "client.log"}
"""What a run makes in its directory, which is the working directory of all its processes."""
DLEDGER_PORT = 2
"""Behind the port of a broker."""
TOKEN = "a-token-of-the-fuzzer"
LAST_OPAQUE = 987_654_321
ANSWER_SECONDS = 5.0
"""Time-out of the reply to a well-formed request: without it a batch is slow, not wrong."""
MOMENT = 0.02
"""Seconds in which a node may respond to invalid requests."""
PROBE_OF = {
    NodeKind.NAMESERVER: int(RequestCode.GET_BROKER_CLUSTER_INFO),
    NodeKind.BROKER: int(RequestCode.GET_BROKER_RUNTIME_INFO),
}
"""Well-formed requests without fields."""

Table = Mapping[int, Route[Any]]
BROKER_HANDLERS: Table = {**BROKER_HANDLERS_OF_4_9, **HANDLERS_OF_5X}


@attrs.define
class Counts:
    """The played batch."""

    batches: int = 0
    requests: int = 0
    garbage: int = 0
    ha_streams: int = 0
    control: int = 0
    dledger: int = 0
    http: int = 0
    crowds: int = 0
    bytes_read: int = 0


@attrs.define(eq=False)
class Fuzz:
    """One run on one cluster."""

    seed: str
    cluster: Cluster
    group: Cluster
    """One DLedger group."""
    api: str
    """The address of the control API of `cluster`."""
    counts: Counts = attrs.field(factory=Counts)
    found: list[str] = attrs.field(factory=list)
    """What plays themselves have found."""

    def odd(self, number: int) -> Odd:
        """The choices of one batch."""
        return Odd(f"{self.seed}/{number}")

    def addresses(self, kind: NodeKind) -> list[str]:
        """Where the nodes of a kind listen."""
        return [node.address for node in self.cluster.supervisor.nodes.values() if node.kind is kind]

    async def play(self, number: int) -> str:
        """Play a batch, and return its description."""
        self.counts.batches += 1
        odd = self.odd(number)
        plays = (
            *(self._requests, self._requests, self._requests, self._garbage, self._ha, self._control),
            *(self._dledger, self._http, self._crowd),
        )
        return await plays[number % len(plays)](odd)

    async def _requests(self, odd: Odd) -> str:
        kind = odd.choice((NodeKind.BROKER, NodeKind.BROKER, NodeKind.NAMESERVER))
        table: Table = BROKER_HANDLERS if kind is NodeKind.BROKER else NAMESERVER_HANDLERS
        address = odd.choice(self.addresses(kind))
        self.counts.requests += BATCH
        last = frames.frame(frames.JSON, json.dumps({"code": PROBE_OF[kind], "opaque": LAST_OPAQUE}).encode(), b"")
        for _ in range(BATCH // PIPELINED):
            data = b"".join(frames.request(odd, table, opaque) for opaque in range(PIPELINED))
            await self._send(address, data + last, odd, until=str(LAST_OPAQUE).encode())
        return f"requests to the {kind} {address}"

    async def _garbage(self, odd: Odd) -> str:
        address = odd.choice(self.addresses(NodeKind.BROKER) + self.addresses(NodeKind.NAMESERVER))
        for _ in range(10):
            self.counts.garbage += 1
            await self._send(address, frames.garbage(odd), odd)
        return f"garbage to {address}"

    async def _ha(self, odd: Odd) -> str:
        host, _, port = odd.choice(self.addresses(NodeKind.BROKER)).rpartition(":")
        address = f"{host}:{int(port) + 1}"
        for _ in range(5):
            self.counts.ha_streams += 1
            reports = [odd.choice((0, 1, -1, 2**40, 2**63 - 1, -(2**63), 100)) for _ in range(odd.randrange(1, 5))]
            data = b"".join(one.to_bytes(8, "big", signed=True) for one in reports)
            await self._send(address, odd.damaged(data) if odd.often(0.3) else data, odd)
        return f"reports of slaves to {address}"

    async def _control(self, odd: Odd) -> str:
        place = self.cluster.supervisor.directory
        for _ in range(5):
            self.counts.control += 1
            data = odd.choice((odd.binary(2000), b"\x81\xa4type\xa5Hello" + odd.binary(), b"\xdf\xff\xff\xff\xff", b""))
            with contextlib.suppress(OSError, trio.BrokenResourceError):
                async with await trio.open_unix_socket(str(place.control_socket)) as stream:
                    await stream.send_all(data)
                    with trio.move_on_after(MOMENT):
                        await stream.receive_some(100)
        return "bytes to the supervisor's control socket"

    async def _dledger(self, odd: Odd) -> str:
        nodes = [node for node in self.group.supervisor.nodes.values() if node.kind is NodeKind.BROKER]
        node = odd.choice(nodes)
        host, _, port = node.address.rpartition(":")
        address = f"{host}:{int(port) + DLEDGER_PORT}"
        facts = (await self.group.snapshot(node.name) or {}).get("dledger")
        if facts is None:
            return f"nothing: {node.name} does not reply"  # the examination says whether that is a finding
        members = [one.member_id or "" for one in nodes]
        target = dledger.Target.of(node.group or "", members, node.member_id or "", facts)
        for _ in range(BATCH // PIPELINED // 4):
            self.counts.dledger += PIPELINED
            data = b"".join(dledger.request(odd, target, opaque) for opaque in range(PIPELINED))
            await self._send(address, data, odd)
        return f"requests of DLedger to {address}"

    async def _http(self, odd: Odd) -> str:
        for _ in range(BATCH // PIPELINED):
            self.counts.http += 1
            await self._send(self.api, http.request(odd, TOKEN), odd)
        await self._send(self.api, http.probe(TOKEN), odd, until=b"200 OK")
        return f"requests to the control API at {self.api}"

    async def _crowd(self, odd: Odd) -> str:
        kind = odd.choice((NodeKind.BROKER, NodeKind.NAMESERVER))
        address = odd.choice(self.addresses(kind))
        host, _, port = address.rpartition(":")
        beside = odd.choice((0, 0, 1, -2)) if kind is NodeKind.BROKER else 0  # the HA port, the VIP port
        last = frames.frame(frames.JSON, json.dumps({"code": PROBE_OF[kind], "opaque": LAST_OPAQUE}).encode(), b"")
        async with crowd(odd, f"{host}:{int(port) + beside}", PROBE_OF[kind]) as size:
            self.counts.crowds += 1
            if not await self._replies(address, last):
                self.found.append(f"{address} does not reply while {size} others are connected to port {beside:+d}")
        return f"a crowd at {address}, port {beside:+d}"

    async def _replies(self, address: str, data: bytes) -> bool:
        """Return whether a well-formed request gets its reply."""
        host, _, port = address.rpartition(":")
        with trio.move_on_after(health.PROBE_TIMEOUT), contextlib.suppress(OSError, trio.BrokenResourceError):
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(data)
                return await self._read(stream, str(LAST_OPAQUE).encode(), health.PROBE_TIMEOUT)
        return False

    async def complaints_of_boundaries(self) -> list[str]:
        """The internal errors of the nodes, each of which is a bug (docs/architecture.md)."""
        return [
            f"internal error of {node.name}: {place}, {count} times"
            for cluster in (self.cluster, self.group)
            for node in cluster.supervisor.nodes.values()
            for place, count in ((await cluster.snapshot(node.name)) or {}).get("internal_errors", {}).items()
        ]

    def complaints_of_supervisors(self) -> list[str]:
        """The internal errors of the control API and of the supervisors."""
        return [
            f"internal error of the supervisor: {place}, {count} times"
            for cluster in (self.cluster, self.group)
            for place, count in cluster.supervisor.processes.errors.counts.items()
        ]

    async def _send(self, address: str, data: bytes, odd: Odd, until: bytes = b"") -> None:
        """Send it in one go or in pieces.

        Read until a text comes, or for a moment, or nothing; then close.
        """
        host, _, port = address.rpartition(":")
        try:
            stream = await trio.open_tcp_stream(host, int(port))
        except OSError:
            return  # the examination says whether that is a finding
        async with stream:
            with contextlib.suppress(trio.BrokenResourceError, OSError), trio.move_on_after(5):
                cut = odd.randrange(len(data) + 1) if odd.often(0.2) else len(data)
                await stream.send_all(data[:cut])
                await stream.send_all(data[cut:])
                if odd.often(0.1):
                    return  # close without reading: what is owed has no taker
                await self._read(stream, until)

    async def _read(self, stream: trio.SocketStream, until: bytes, seconds: float = ANSWER_SECONDS) -> bool:
        """Read until a text comes; return whether it came."""
        tail = b""
        with trio.move_on_after(seconds if until else MOMENT):
            while got := await stream.receive_some(2**16):
                self.counts.bytes_read += len(got)
                tail = tail[-100:] + bytes(got)
                if until and until in tail:
                    return True
        return False


@contextlib.asynccontextmanager
async def victims(seed: str, place: Path) -> AsyncIterator[Callable[[], list[str]]]:
    """An application and a slave that are led to evil servers.

    Gives the function that says what became of them.
    """
    evil = EvilServer(Odd(f"{seed}/evil"))
    async with trio.open_nursery() as nursery:
        evil.address = await _listen(nursery, evil.serve)
        ha_address = await _listen(nursery, functools.partial(serve_ha, Odd(f"{seed}/ha")))
        config = place / "slave.toml"
        config.write_text(SLAVE.format(namesrv=evil.address, ha=ha_address, store=place / "store"))
        with (
            Victim.started("slave", place, "rmqlab.broker", str(config)) as slave,
            Victim.started("client", place, "tests.fuzz.victim", evil.address) as client,
        ):
            yield lambda: slave.complaints() + client.complaints() + client.complaints_of_silence()
        print(f"evil server: {evil.replies} replies")
        nursery.cancel_scope.cancel()


async def _listen(nursery: trio.Nursery, serve: Callable[[trio.SocketStream], Awaitable[None]]) -> str:
    listeners = await nursery.start(functools.partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
    return f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"


SLAVE = """
broker_name = "victim"
broker_id = 1
broker_role = "SLAVE"
listen_address = "127.0.0.1"
listen_port = 0
fast_listen_port = 0
ha_listen_port = 0
namesrv_addr = "{namesrv}"
ha_master_address = "{ha}"
store_path_root_dir = "{store}"
register_name_server_period = 10000
"""


@contextlib.asynccontextmanager
async def control_api(cluster: Cluster) -> AsyncIterator[str]:
    """Serve the control API of a cluster. Gives its address."""
    access = ControlAccess(url="", token=TOKEN, host="127.0.0.1")
    server = ControlServer(ControlApp(cluster, access, http.ENDPOINTS_OF_FUZZER))
    async with trio.open_nursery() as nursery:
        yield await _listen(nursery, server.serve_connection)
        nursery.cancel_scope.cancel()


def strays(place: Path) -> list[str]:
    """Return unexpected files: all processes of the run have this working directory."""
    return [f"somebody wrote {path}" for path in place.iterdir() if path.name not in OWN_FILES]


def nodes_of(cluster: Cluster) -> list[health.Node]:
    """The nodes as they are now."""
    found = []
    for node in cluster.supervisor.nodes.values():
        pid = cluster.supervisor.process_state(node.name).pid
        if pid is None or not health.is_alive(pid):
            raise SystemExit(f"{node.name} does not run")
        found.append(health.Node.at_start(node.name, pid, node.address, PROBE_OF[node.kind]))
    return found


async def fuzz(seconds: float, seed: str, first: int, place: Path) -> int:
    """Play batches from the first on until the time is over, or something is found."""
    spec = ClusterSpec(
        name="fuzz", broker_settings={"mapped_file_size_commit_log": 64 * 2**20, "serve_requests_of_5x": True}
    )
    group_spec = ClusterSpec(name="fuzz-group", mode=DLEDGER, slaves=2)
    async with (
        open_cluster(spec, directory=place / "lab") as cluster,
        open_cluster(group_spec, directory=place / "group") as group,
        control_api(cluster) as api,
        victims(seed, place) as found_of_victims,
    ):
        run, nodes = Fuzz(seed, cluster, group, api), None
        until = time.monotonic() + seconds
        for number in itertools.count(first):
            what = await run.play(number)
            if number == first + WARM_UP:
                nodes = [*nodes_of(cluster), *nodes_of(group)]
            found = [*run.found, *found_of_victims(), *strays(place), *run.complaints_of_supervisors()]
            found += [f"{node.name} died" for node in nodes or () if not health.is_alive(node.pid)]
            if number % EXAMINED_EVERY == 0:
                for node in nodes or [*nodes_of(cluster), *nodes_of(group)]:
                    found += await health.complaints(node)
                found += await run.complaints_of_boundaries()
            if found:
                print("\n".join([f"batch {number} of seed {seed}: {what}", *found]))
                print(f"again: python -m tests.fuzz --seed {seed} --first {number}; logs: {place}")
                return 1
            if time.monotonic() > until:
                break
        await cluster.stop("broker-a")  # in order, in time
        print(" ".join(f"{name}: {count}" for name, count in attrs.asdict(run.counts).items()), f"seed: {seed}")
    return 0


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first batch")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="rmqlab-fuzz-"))
    os.chdir(place)
    status = trio.run(fuzz, 60 * arguments.minutes, arguments.seed, arguments.first, place)
    print(f"fuzz: {1 - status} passed, {status} failed, 0 skipped")
    sys.exit(status)


if __name__ == "__main__":
    main()
