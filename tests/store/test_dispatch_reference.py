"""Queues and index are those of a slow reference, however records reach them.

A batch sent to a master, its log dispatched again after a crash, and its log received by a slave: the reference reads
each record on its own, with the parsers of a client.
"""

import contextlib
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmqlab.remoting.batch import Batch, BatchItem, decode_batch, encode_batch
from rmqlab.remoting.message import NewMessage, parse_properties
from rmqlab.store.keyindex.index import Index
from rmqlab.store.keyindex.indexkeys import IndexEntry
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import SOME_DAY, ManualClock, small_config

FILE = 1 << 20
KEY = "C00002020D4B4E0E2F2A65D1"
Queues = dict[tuple[str, int], list[tuple[int, int, int, int]]]


def slow_hash(text: str) -> int:
    """Return Java's String.hashCode."""
    hashed, units = 0, text.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", units):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >= 1 << 31 else hashed


def slow_key_hash(text: str) -> int:
    hashed = abs(slow_hash(text))
    return hashed if hashed < 1 << 31 else 0


def reference(log: bytes) -> tuple[Queues, list[IndexEntry]]:
    """Return queue entries and index entries of a log; hosts are IPv4."""
    queues, index, at = Queues(), list[IndexEntry](), 0
    while at < len(log):
        size, _magic, _crc, queue_id, _flag, queue_offset, physical = struct.unpack_from(">iiiiiqq", log, at)
        (stored_at,) = struct.unpack_from(">q", log, at + 56)
        (body_size,) = struct.unpack_from(">i", log, at + 84)
        topic_at = at + 88 + body_size
        properties_at = topic_at + 1 + log[topic_at]
        topic = log[topic_at + 1 : properties_at].decode()
        (properties_size,) = struct.unpack_from(">h", log, properties_at)
        text = log[properties_at + 2 : properties_at + 2 + properties_size]
        assert properties_at + 2 + properties_size == at + size
        properties = parse_properties(text.decode("utf-8", "replace"))
        tags = properties.get("TAGS", "")
        queues.setdefault((topic, queue_id), []).append((queue_offset, physical, size, slow_hash(tags)))
        keys = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
        index += [(slow_key_hash(f"{topic}#{key}"), physical, stored_at) for key in keys if key]
        at += size
    return queues, index


@contextlib.contextmanager
def indexed_entries() -> Iterator[list[IndexEntry]]:
    """Collect what is entered in any index."""
    seen: list[IndexEntry] = []
    put = Index.put

    def spy(index: Index, entries: Sequence[IndexEntry]) -> None:
        seen.extend(entries)
        put(index, entries)

    with patch.object(Index, "put", spy):
        yield seen


def queues_of(store: MessageStore) -> Queues:
    return {
        (queue.topic, queue.queue_id): [
            (offset, *entry)
            for offset in range(queue.min_offset, queue.max_offset)
            if (entry := queue.entry(offset)) is not None
        ]
        for queue in store.queues
    }


def dispatched(root: Path, log: bytes, step: int) -> tuple[Queues, list[IndexEntry]]:
    """Return what a slave makes of a log that it receives in pieces."""
    config = small_config(root, mapped_file_size_commit_log=FILE, max_index_num=5000)
    with (
        indexed_entries() as seen,
        contextlib.closing(MessageStore.open(config, now_millis=ManualClock(), is_slave=True)) as store,
    ):
        for start in range(0, len(log), step):
            store.append_raw(start, log[start : start + step])
            while store.dispatch(100_000, may_index=start % 2 == 0):
                pass
        store.dispatch()
        return queues_of(store), seen


COUNTED = st.integers(0, 40).map(lambda number: f"UNIQ_KEY\x01{KEY}{number:08X}".encode())
PAIRS = st.one_of(
    COUNTED,
    st.sampled_from(
        [
            *(b"TAGS\x01a", b"TAGS\x01", b"TAGS\x01\xff\xfe", b"TAGS", b"TAGS\x01\x01", b"TAGS\x01a\x01b"),
            *(b"KEYS\x01", b"KEYS\x01k", b"KEYS\x01 k  l ", b"KEYS\x01\x00", b"KEYS\x01\xc3", b"KEYS"),
            *(b"UNIQ_KEY\x01", b"UNIQ_KEY", b"UNIQ_KEY\x01 ", b"UNIQ_KEY\x01\xf0\x9f\x98\x80", b"xUNIQ_KEY\x01n"),
            *(b"", b"\x01", b"\x01v", b"DELAY\x013", b"TRAN_MSG\x01true", b"K\x01" + b"v" * 32_000),
        ]
    ),
    st.binary(max_size=6),
)
TEXTS = st.lists(PAIRS, max_size=4).map(b"\x02".join).filter(lambda text: len(text) < 32_600)
ALIKE = st.tuples(TEXTS, st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40), TEXTS).map(
    lambda parts: [b"%s\x02UNIQ_KEY\x01%s%08X\x02%s" % (parts[0], KEY.encode(), one, parts[2]) for one in parts[1]]
)
BATCHES = st.one_of(st.lists(TEXTS, min_size=1, max_size=10), ALIKE).filter(
    lambda texts: sum(map(len, texts)) < FILE // 8 and max(map(len, texts)) < 32_600
)


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(BATCHES, st.sampled_from([b"", b"x" * 9]), st.integers(0, 1)), min_size=1, max_size=3),
    st.sampled_from(["", "WAIT\x01true\x02CLUSTER\x01c", "TAGS\x01shared", "UNIQ_KEY\x01u"]),
    st.sampled_from([5000, FILE]),
)
@example([([b"UNIQ_KEY\x01a\x02UNIQ_KEY\x01", b"TAGS\x01t\x02TAGS\x01\x02KEYS\x01k\x02KEYS\x01"], b"", 0)], "", FILE)
@example([([b"UNIQ_KEY\x01"], b"", 0)], "", FILE)
def test_every_way_leads_to_the_entries_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    sent: list[tuple[list[bytes], bytes, int]],
    shared: str,
    step: int,
) -> None:
    """store-ha#13, #17, #19, #23, #24."""
    root = tmp_path_factory.mktemp("reference")
    config = small_config(root / "master", mapped_file_size_commit_log=FILE, max_index_num=5000)
    with indexed_entries() as seen, contextlib.closing(MessageStore.open(config, now_millis=ManualClock())) as master:
        for texts, body, queue_id in sent:
            items = [BatchItem(body, text, 0) for text in texts]
            batch = decode_batch(encode_batch(items))
            assert batch == Batch.of(items)
            message = NewMessage("orders", queue_id, b"", ("10.0.0.1", 1), ("10.0.0.1", 2), SOME_DAY, properties=shared)
            master.append_batch(message, batch)
        master.enter_appended()
        log = bytes(master.read_log(0, FILE))
        by_batch = queues_of(master), seen
        expected = reference(log)
        assert by_batch == expected
    assert dispatched(root / "slave", log, step) == expected
    for name in ("consumequeue", "index", "checkpoint"):
        path = config.store_path_root_dir / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (config.store_path_root_dir / "abort").touch()
    with indexed_entries() as again, contextlib.closing(MessageStore.open(config, now_millis=ManualClock())) as master:
        assert (queues_of(master), again) == expected
    shutil.rmtree(root)
