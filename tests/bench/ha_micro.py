"""MB/s from a master to an empty slave over loopback, two processes.

Run it: `python -m tests.bench.ha_micro`. The master's log is 1 KiB bodies in eight queues. The slave receives into its
commit log and, unless disabled to, enters every message in queues and index as a broker does. It has caught up when the
queues have everything; what the index still lacks then, and when it has it, is printed as well. Figures move with the
machine and its load: compare ratios of one run.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs
import trio

from rmqlab.broker.ha.intake import dispatch_forever, warm_forever
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.remoting.message import NewMessage
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.store.config import StoreConfig
from rmqlab.store.messagestore import MessageStore

HOST = ("127.0.0.1", 10911)
BODY = b"x" * 1024
WORK = ["nothing", "queues", "queues and index"]


@attrs.define
class Span:
    """Real, user and system seconds of this process since the first byte."""

    began: tuple[float, float, float] | None = None

    def begin(self) -> None:
        """Once."""
        if self.began is None:
            self.began = self._now()

    def seconds(self) -> list[float]:
        """Real, user, system."""
        assert self.began is not None
        return [now - began for now, began in zip(self._now(), self.began, strict=True)]

    def _now(self) -> tuple[float, float, float]:
        times = os.times()
        return time.perf_counter(), times.user, times.system


@attrs.define
class Growth:
    """What wakes the loops."""

    dispatch_due: trio.Event = attrs.field(factory=trio.Event)
    bulk_begun: trio.Event = attrs.field(factory=trio.Event)


def fill(store: MessageStore, size: int) -> None:
    """Put messages until the log has this many bytes."""
    number = 0
    while store.max_commit_log_offset < size:
        unique = f"C00002025AA64E0E2F2A65C9{number:08X}"
        properties = f"UNIQ_KEY\x01{unique}\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
        message = NewMessage("BenchmarkTest", number & 7, BODY, HOST, HOST, 1_795_200_000_000, properties=properties)
        store.append(message)
        if number % 1000 == 999:
            store.enter_appended()
        number += 1


async def follow(address: str, root: Path, target: int, work: str) -> None:
    """Run the slave's process: follow until `target`, and print its costs."""
    config = StoreConfig(store_path_root_dir=root, message_index_enable=work == "queues and index")
    store = MessageStore.open(config, now_millis=wall_millis, is_slave=True)
    span, caught_up, reactor, growth = Span(), trio.Event(), Reactor(), Growth()

    def received() -> None:
        span.begin()
        if work == "nothing":
            growth.bulk_begun.set()
            progressed(store.max_commit_log_offset)
        else:
            growth.dispatch_due.set()

    def progressed(reached: int) -> None:
        if reached >= target:
            caught_up.set()

    settings = HaSettings(ha_report_at_once=True, ha_master_address=address)
    slave = HaSlave(
        reactor,
        store,
        settings,
        KnownMaster.from_settings(settings),
        on_received=received,
        emit=lambda *_kind, **_fields: None,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reactor.run_forever)
        nursery.start_soon(slave.run_forever)
        nursery.start_soon(dispatch_forever, store, growth, lambda: progressed(store.dispatched_offset))
        nursery.start_soon(warm_forever, store, growth)
        await caught_up.wait()
        seconds, behind = span.seconds(), store.dispatch_behind_bytes
        nursery.cancel_scope.cancel()
    if work != "nothing":
        store.dispatch()
    print(json.dumps({"seconds": seconds, "behind": behind, "finished": span.seconds()}), flush=True)


async def serve(store: MessageStore, frame_size: int, where: str | None, runs: list[str]) -> None:
    """The master's process: start a slave for each run."""
    reactor = Reactor()
    settings = HaSettings(ha_transfer_batch_size=frame_size)
    master = HaMaster(reactor, store, settings, on_ack=lambda _master: None, emit=lambda *_kind, **_fields: None)
    host, port = master.listen("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reactor.run_forever)
        nursery.start_soon(master.run_forever)
        for work in runs:
            cpu = time.process_time()
            with tempfile.TemporaryDirectory(dir=where) as root:
                figures = await run_slave(f"{host}:{port}", root, store.max_commit_log_offset, work)
            report(store.max_commit_log_offset, figures, time.process_time() - cpu, work)
        nursery.cancel_scope.cancel()
    master.close()


async def run_slave(address: str, root: str, target: int, work: str) -> dict[str, Any]:
    """One slave from its start until it has caught up."""
    arguments = ["--follow", address, "--root", root, "--target", str(target), "--work", work]
    child = await trio.run_process(
        [sys.executable, "-m", "tests.bench.ha_micro", *arguments], capture_stdout=True, stderr=None
    )
    figures: dict[str, Any] = json.loads(child.stdout)
    return figures


def report(size: int, figures: dict[str, Any], master_cpu: float, work: str) -> None:
    """One line for one run."""
    gigabytes = size / 1e9
    real, user, system = [seconds / gigabytes for seconds in figures["seconds"]]
    finished, finished_user, finished_system = [seconds / gigabytes for seconds in figures["finished"]]
    print(
        f"dispatch to {work:16}: {1000 / real:6.0f} MB/s"
        f"   CPU s/GB: slave {user:.2f} + {system:.2f} system, master {master_cpu / gigabytes:.2f}"
        f"   with the index's rest of {figures['behind'] / 1e6:.0f} MB: {1000 / finished:.0f} MB/s,"
        f" {finished_user:.2f} + {finished_system:.2f} system",
        flush=True,
    )


def main() -> None:
    """Fill a log, then let slaves catch up with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1000, help="MiB of log; at most one file of 1024")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frame", type=int, default=32_768, help="haTransferBatchSize")
    parser.add_argument("--dir", help="where the stores go, for example /dev/shm")
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--target", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--work", choices=WORK, action="append", help="what the slave does with what it receives")
    options = parser.parse_args()
    if options.follow:

        async def slave() -> None:
            await follow(options.follow, options.root, options.target, options.work[0])

        trio.run(slave)
        return
    with tempfile.TemporaryDirectory(dir=options.dir) as root:
        store = MessageStore.open(StoreConfig(store_path_root_dir=Path(root)), now_millis=wall_millis)
        fill(store, options.size * 2**20)
        trio.run(serve, store, options.frame, options.dir, (options.work or WORK) * options.rounds)
        store.close()


if __name__ == "__main__":
    main()
