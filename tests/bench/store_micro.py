"""Microseconds per message of the store's hot paths, on this machine.

Run it: `python -m tests.bench.store_micro`. Figures move with the machine and its load: compare ratios of one run, not
figures of two.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rmqlab.remoting.batch import Batch, BatchItem
from rmqlab.remoting.message import NewMessage
from rmqlab.store.config import StoreConfig
from rmqlab.store.messagestore import MessageStore

BODY = b"x" * 128
HOST = ("127.0.0.1", 10911)
PASS = 16
"""Messages that come together."""


def best_of(rounds: int, count: int, work: Callable[[int], object]) -> float:
    """The best round, in microseconds per item."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        work(count)
        best = min(best, (time.perf_counter() - began) / count)
    return best * 1e6


def open_store(root: Path, *, is_slave: bool = False) -> MessageStore:
    ticks = itertools.count(1_795_200_000_000)
    return MessageStore.open(StoreConfig(store_path_root_dir=root), now_millis=lambda: next(ticks), is_slave=is_slave)


def put_many(store: MessageStore) -> Callable[[int], None]:
    numbers = itertools.count()

    def put(count: int) -> None:
        for number in itertools.islice(numbers, count):
            unique = f"C00002025AA64E0E2F2A65C9{number:08X}"
            properties = f"UNIQ_KEY\x01{unique}\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
            store.append(
                NewMessage("BenchmarkTest", number & 7, BODY, HOST, HOST, 1_795_200_000_000, properties=properties)
            )
            if number % PASS == PASS - 1:
                store.enter_appended()

    return put


def make_many(_: MessageStore) -> Callable[[int], None]:
    """What `put_many` spends outside the store."""

    def make(count: int) -> None:
        for number in range(count):
            unique = f"C00002025AA64E0E2F2A65C9{number:08X}"
            properties = f"UNIQ_KEY\x01{unique}\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
            NewMessage("BenchmarkTest", number & 7, BODY, HOST, HOST, 1_795_200_000_000, properties=properties)

    return make


def put_batches(store: MessageStore) -> Callable[[int], None]:
    def put(count: int) -> None:
        for start in range(0, count, 32):
            items = [BatchItem(BODY, b"UNIQ_KEY\x01C00002025AA64E0E2F2A65C9%08X" % n) for n in range(start, start + 32)]
            store.put_batch(
                NewMessage("BatchTest", 0, b"", HOST, HOST, properties="CLUSTER\x01Default"), Batch.of(items)
            )

    return put


def pull_all(store: MessageStore, matches: Callable[[int], bool] | None) -> Callable[[int], None]:
    def pull(count: int) -> None:
        at = 0
        for _ in range(count // 32):
            at = store.get_message("BenchmarkTest", 1, at, 32, matches).next_begin_offset

    return pull


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=100_000)
    count = arguments.parse_args().count
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        master, slave = open_store(root / "master"), open_store(root / "slave", is_slave=True)
        overhead = best_of(3, count, make_many(master))
        print(f"put 128 B, queue and index  {best_of(3, count, put_many(master)) - overhead:6.2f} us")
        tags = {2598919}
        print(f"get 32 x 128 B              {32 * best_of(3, count // 4, pull_all(master, None)):6.2f} us")
        print(f"get 32 x 128 B, with tags   {32 * best_of(3, count // 4, pull_all(master, tags.__contains__)):6.2f} us")
        end = master.max_commit_log_offset
        while slave.max_commit_log_offset < end:
            piece = master.read_log(slave.max_commit_log_offset, 1 << 20)
            slave.append_raw(slave.max_commit_log_offset, piece)
            piece.release()
        began = time.perf_counter()
        slave.dispatch()
        spent = time.perf_counter() - began
        print(f"dispatch 128 B, with index  {spent * 1e6 / (3 * count):6.2f} us  ({end / spent / 1e6:.0f} MB/s)")
        print(f"put in batches of 32        {best_of(3, count, put_batches(master)):6.2f} us")
        master.close()
        slave.close()


if __name__ == "__main__":
    main()
