"""Damages each file of a store in each way, starts it, and compares its messages.

A tool to be called by hand: `python -m tests.store.damagesweep`. It needs no network and no process. A start either
fails with one line that names the file, or the store works: what its queues have is what was put there, a new message
follows the last one, a second start finds the same, and a slave can copy the log to its end. A line of the output is a
breach of that, or, with `--all`, also a loss: RocketMQ 4.9.8 cuts a log at its first damaged record.
"""

import argparse
import collections
import contextlib
import functools
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs

from rmqlab.remoting.message import RecordError, decode_message
from rmqlab.store.files.disk import StoreError
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import GetStatus
from rmqlab.store.testing import ManualClock, new_message, small_config

COUNT: Final = 150
TOPICS: Final = (("orders", 0), ("orders", 1), ("pay", 0))
Place = tuple[str, int, int]
"""Topic, queue id, queue offset."""


def opened(root: Path, *, is_slave: bool = False) -> MessageStore:
    config = small_config(root, max_index_num=60, mapped_file_size_consume_queue=10 * 20)
    return MessageStore.open(config, now_millis=ManualClock(step=1), is_slave=is_slave)


def fill(store: MessageStore, count: int) -> None:
    for number in range(count):
        topic, queue_id = TOPICS[number % len(TOPICS)]
        body = f"{number:06}".encode() * random.Random(number).randrange(100, 400)
        store.put(new_message(body, topic, queue_id, keys=f"k{number}", tags="ab"[number % 2]))
        if number % 20 == 0:
            flush(store)
    flush(store)


def flush(store: MessageStore) -> None:
    for job in (store.flush_job(), store.flush_queues_job()):
        if job is not None:
            job.run()
            store.flushed(job)


def copy_log(master: MessageStore, slave: MessageStore) -> str:
    """Replicate as HA does; return why it did not reach the end."""
    offset = slave.max_commit_log_offset or master.min_commit_log_offset
    while offset < master.max_commit_log_offset:
        piece = bytes(master.read_log(offset, 32 * 1024))
        if not piece:
            return f"a slave gets no byte at {offset}, and the log ends at {master.max_commit_log_offset}"
        if not slave.append_raw(offset, piece):
            return f"a slave cannot append at {offset}"
        offset += len(piece)
        slave.dispatch()
    return ""


@attrs.frozen
class Base:
    """A store before the damage."""

    name: str
    root: Path
    messages: dict[Place, bytes]
    is_slave: bool = False


def make_bases(below: Path) -> Iterator[Base]:
    master = opened(below / "master")
    fill(master, COUNT)
    slave = opened(below / "slave", is_slave=True)
    assert not copy_log(master, slave)
    flush(slave)
    for name, store in (("master", master), ("slave", slave)):
        shutil.copytree(below / name, below / f"{name}-killed")
        messages = readable(store)[0]
        assert len(messages) == COUNT
        store.close()
        for end in ("", "-killed"):
            yield Base(f"{name}{end}", below / f"{name}{end}", messages, name == "slave")


def readable(store: MessageStore) -> tuple[dict[Place, bytes], list[str]]:
    """Return the messages of all queues, and what is wrong with them."""
    found, wrong = {}, []
    for topic, queue_id in store.topics_queues():
        low, high = store.min_queue_offset(topic, queue_id), store.max_queue_offset(topic, queue_id)
        at = low
        while at < high:
            result = store.get_message(topic, queue_id, at, 32)
            if result.status is not GetStatus.FOUND:
                if result.next_begin_offset <= at:
                    wrong.append(f"{topic}-{queue_id}: a pull of {at} is {result.status.name}, and does not move on")
                    break
                at = result.next_begin_offset
                continue
            for record in itertools.chain.from_iterable(map(_records, result.buffers)):
                try:
                    message = decode_message(record)
                except RecordError as exc:
                    wrong.append(f"{topic}-{queue_id}: a pull of {at} returns no record: {exc}")
                    continue
                place = (message.topic, message.queue_id, message.queue_offset)
                if place[:2] != (topic, queue_id) or not at <= place[2] < result.next_begin_offset:
                    wrong.append(f"{topic}-{queue_id}: a pull of {at} returns {place}")
                else:
                    found[place] = bytes(message.body)
            at = result.next_begin_offset
    return found, wrong


def _records(buffer: memoryview) -> Iterator[memoryview]:
    """Split a buffer with consecutive records; an invalid size ends it."""
    at = 0
    while at < len(buffer):
        size = int.from_bytes(buffer[at : at + 4], "big")
        size = size if 0 < size <= len(buffer) - at else len(buffer) - at
        yield buffer[at : at + size]
        at += size


def problems(root: Path, base: Base) -> Iterator[str]:
    """Start the damaged store; yield what is wrong."""
    try:
        store = opened(root, is_slave=base.is_slave)
    except (StoreError, OSError) as exc:
        if str(root) not in str(exc) or "\n" in str(exc):
            yield f"BAD ERROR {exc}"
        yield "refused"
        return
    found, wrong = readable(store)
    yield from wrong
    differing = [place for place, body in found.items() if base.messages.get(place, body) != body]
    if differing:
        yield f"changed: {len(differing)} messages, {differing[0]}"
    extra = found.keys() - base.messages.keys()
    if extra:
        yield f"EXTRA: {len(extra)} messages, {min(extra)}"
    lost = base.messages.keys() - found.keys()
    if lost:
        yield f"lost: {len(lost)} of {len(base.messages)}"
    added = {}
    if base.is_slave:
        store.close()
        store = opened(root)
    for topic, queue_id in TOPICS:
        expected = store.max_queue_offset(topic, queue_id)
        put = store.put(new_message(b"new", topic, queue_id, keys="new"))
        if put.queue_offset != expected:
            yield f"{topic}-{queue_id}: a new message got {put.queue_offset}, expected {expected}"
        added[topic, queue_id, put.queue_offset] = b"new"
    with contextlib.closing(store):
        for number in range(COUNT):
            for record in store.query("orders", f"k{number}", 32, 0, 2**62).buffers:
                if decode_message(record).properties.get("KEYS") != f"k{number}":
                    yield f"a query of k{number} returns another message"
        yield from slave_problems(root, store)
    again = opened(root)
    with contextlib.closing(again):
        later, wrong = readable(again)
    yield from (f"second start: {text}" for text in wrong)
    for place in sorted((found | added).keys() - later.keys())[:1]:
        yield f"second start: {place} is lost"
    for place in sorted(later.keys() - (found | added).keys())[:1]:
        yield f"second start: {place} is there again"


def slave_problems(root: Path, store: MessageStore) -> Iterator[str]:
    copy = root.parent / "copy"
    with contextlib.closing(opened(copy, is_slave=True)) as slave:
        if why := copy_log(store, slave):
            yield why
        theirs, wrong = readable(slave)
        yield from (f"slave: {text}" for text in wrong)
        ours, _ = readable(store)
        if not why and not ours.items() <= theirs.items():
            yield (
                f"SLAVE: has {len(theirs)} messages, the master {len(ours)};"
                f" {sorted(ours.keys() ^ theirs.keys())[:2]} differ"
            )
    shutil.rmtree(copy)


def damages(path: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what may happen to a file."""
    raw = path.read_bytes()
    size = len(raw)
    used = len(raw.rstrip(b"\0"))
    places = {"start": 0, "middle": used // 2, "end": max(0, used - 8)}

    def over(at: int, piece: bytes) -> Callable[[], object]:
        return lambda: path.write_bytes((raw[:at] + piece + raw[at + len(piece) :])[:size])

    for name, at in places.items():
        yield f"flip a bit at {name}", over(at, bytes([raw[at] ^ 1]) if size else b"")
        yield f"flip the sign at {name}", over(at, bytes([raw[at] ^ 0x80]) if size else b"")
        yield f"zero 64 bytes at {name}", over(at, bytes(64))
        yield f"0xff in 64 bytes at {name}", over(at, b"\xff" * 64)
        yield f"garbage in 512 bytes at {name}", over(at, random.Random(1).randbytes(512))
        yield f"truncate at {name}", functools.partial(path.write_bytes, raw[:at])
    yield "zero from the middle", over(places["middle"], bytes(size))
    yield "zero", over(0, bytes(size))
    yield "remove", path.unlink
    yield "grow by a byte", lambda: path.write_bytes(raw + b"\0")
    yield "grow by its size", lambda: path.write_bytes(raw + raw)
    for other in sorted(path.parent.iterdir()):
        if other != path and other.is_file():
            yield f"replaced by {other.name}", over(0, other.read_bytes())
    if path.name.isdigit() and size:
        after = path.parent / f"{int(path.name) + size:0{len(path.name)}}"
        yield "duplicate as the next", lambda: after.write_bytes(raw)
        far = path.parent / f"{int(path.name) + 5 * size:0{len(path.name)}}"
        yield "duplicate as a later one", lambda: far.write_bytes(raw)
        between = path.parent / f"{int(path.name) + 7:0{len(path.name)}}"
        yield "duplicate between two places", lambda: between.write_bytes(raw)
        yield "rename to a shorter name", lambda: path.rename(path.parent / path.name[:-1])


def sweep(
    program: str,
    description: str | None,
    bases: Callable[[Path], Iterator[Base]],
    problems_of: Callable[[Path, Base], Iterator[str]],
) -> None:
    """Damage each file of each base in each way; print the problems of each start."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--only", default="", help="only files and damages whose name has this text")
    parser.add_argument("--all", action="store_true", help="print losses as well")
    arguments = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        root = Path(folder, "one")
        for base in bases(Path(folder, "bases")):
            for below, number, name in _damages_of(base):
                what = f"{base.name} {below}: {name}"
                if arguments.only not in what:
                    continue
                shutil.copytree(base.root, root)
                [*damages(root / below)][number][1]()
                try:
                    found = list(problems_of(root, base))
                except Exception as exc:  # noqa: BLE001 - what leaves the store is what this looks for
                    found = [f"TRACEBACK {type(exc).__name__}: {exc}"]
                shutil.rmtree(root)
                expected = [text for text in found if text.startswith(("refused", "lost", "changed"))]
                counts[expected[0].split(":")[0] if expected else "unchanged"] += 1
                if len(expected) != len(found) or (arguments.all and found):
                    print(f"{what}: {'; '.join(found)}", flush=True)
                    counts["breaches"] += len(expected) != len(found)
    print(dict(counts))


def _damages_of(base: Base) -> Iterator[tuple[Path, int, str]]:
    """Yield each damage of a store: file, number of the damage to it, and name."""
    for path in sorted(path for path in base.root.rglob("*") if path.is_file()):
        for number, (name, _) in enumerate(damages(path)):
            yield path.relative_to(base.root), number, name


if __name__ == "__main__":
    sweep("tests.store.damagesweep", __doc__, make_bases, problems)
