"""How the cost of sends, pulls, starts and status grows.

It is measured by messages, topics and brokers.

All figures are CPU time. Messages and topics: one broker without sockets, in this process. Brokers: a real cluster, the
CPU of a node until all are ready and that of the command `rmqlab status`.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rmqlab.broker.snapshot import snapshot
from rmqlab.broker.testing import TalkingBroker, open_talking_broker
from rmqlab.remoting.batch import Batch, BatchItem
from rmqlab.remoting.message import NewMessage
from tests.bench.commands import command_seconds
from tests.bench.process import run_seconds
from tests.bench.tables import Better, Cell, Table, median
from tests.interop.ours import rmqlab, stopped

MESSAGES = (10**3, 10**5, 10**6)
TOPICS = (10, 10**3, 10**4)
BROKERS = (1, 100)
_FILES = {
    "mapped_file_size_commit_log": 1 << 30, "mapped_file_size_consume_queue": 6_000_000,
    "max_hash_slot_num": 5_000_000, "max_index_num": 20_000_000,
}  # fmt: skip
_SMALL_FILES = {**_FILES, "mapped_file_size_consume_queue": 40_000}
_HOST = ("127.0.0.1", 10911)
_BATCH = 100
_CALLS = 200
_PARTS = 5
_BETTER: Mapping[int, Better] = {1: "less", 2: "less", 3: "less", 4: "less"}
_COLUMNS = ["send, us", "pull of 32, us", "start, ms", "status, us"]


def measure(directory: Path, messages: Sequence[int], topics: Sequence[int], brokers: Sequence[int]) -> list[Table]:
    """Return a table for each of the three."""
    by_messages = [_measure_store(directory / f"messages-{count}", count, 4) for count in messages]
    by_topics = [_measure_store(directory / f"topics-{count}", count, count) for count in topics]
    return [
        Table("Growth with messages", ["messages", *_COLUMNS], by_messages, "", better=_BETTER),
        Table("Growth with topics", ["topics", *_COLUMNS], by_topics, "One message each.", better=_BETTER),
        measure_brokers(directory, brokers),
    ]


def _measure_store(root: Path, messages: int, topics: int) -> list[Cell]:
    """Costs at a broker with so many messages, evenly in so many topics."""
    files = _SMALL_FILES if topics > 4 else _FILES
    talking = open_talking_broker(root, **files)
    fill(talking, messages, topics)
    send = best_us(lambda: talking.send("growth-0", 0, b"x" * 128, UNIQ_KEY="C000020203C34E0E2F2A65E200000000"))
    pull = best_us(lambda: talking.pull("growth-0", messages // topics // 2, maxMsgNums=32))
    status = best_us(lambda: snapshot(talking.broker))
    talking.broker.store.close()
    began = time.process_time()
    talking = open_talking_broker(root)
    start = time.process_time() - began
    talking.broker.store.close()
    size = messages if topics <= 4 else topics
    row: list[Cell] = [f"{size:,}", round(send, 1), round(pull, 1), round(start * 1000, 1), round(status, 1)]
    print("  " + ", ".join(map(str, row)), flush=True)
    return row


def fill(talking: TalkingBroker, messages: int, topics: int) -> None:
    """Put so many messages, evenly in queue 0 of so many topics."""
    store = talking.broker.store
    for topic in range(topics):
        talking.broker.topics.create_plain(f"growth-{topic}", 1)
        left = messages // topics
        while left:
            size = min(left, _BATCH)
            keys = [b"UNIQ_KEY\x01C000020203C34E0E2F2A65E2%08X" % number for number in range(left, left - size, -1)]
            batch = Batch.of([BatchItem(b"x" * 128, key) for key in keys])
            assert store.put_batch(NewMessage(f"growth-{topic}", 0, b"", _HOST, _HOST), batch).is_stored
            left -= size


def measure_brokers(directory: Path, brokers: Sequence[int]) -> Table:
    """Return what a start and a status cost, by number of brokers."""
    rows: list[list[Cell]] = []
    for count in brokers:
        name = f"growth-{count}"
        words = ["--groups", str(count), "--slaves", "0"]
        nodes = json.loads(rmqlab(directory, "up", "--detach", "--json", "--name", name, *words))["nodes"]
        try:
            spent = median([run_seconds(node["pid"])[0] for node in nodes if node["kind"] == "broker"])
            namesrv = next(run_seconds(node["pid"])[0] for node in nodes if node["kind"] == "nameserver")
            status = [command_seconds(partial(rmqlab, directory, "status", "--name", name)) for _ in range(3)]
        finally:
            stopped(directory, name)
        rows.append([f"{count}", *(round(seconds * 1000, 1) for seconds in (spent, namesrv, median(status)))])
        print("  " + ", ".join(map(str, rows[-1])), flush=True)
    columns = ["brokers", "start of a broker, ms", "of the nameserver, ms", "`rmqlab status`, ms"]
    return Table("Growth with brokers", columns, rows, "Masters without slaves.", better={1: "less", 3: "less"})


def best_us(call: Callable[[], object]) -> float:
    """Return the CPU of a call in microseconds: the best of some rounds."""
    found = []
    for _ in range(_PARTS):
        began = time.process_time()
        for _ in range(_CALLS):
            call()
        found.append((time.process_time() - began) / _CALLS)
    return min(found) * 1e6
