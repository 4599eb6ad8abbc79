"""Violations in consume queues and the index, which derive from a commit log."""

import itertools
import shutil
import struct
from pathlib import Path

import attrs

from rmqlab.cluster.plant.logs import overwrite, unique_id
from rmqlab.cluster.plant.model import WARNING, Change, Expected, Kind, Nodes, NothingToPlantError
from rmqlab.cluster.plant.runcopy import RunCopy, any_broker
from rmqlab.remoting.message import StoredMessage, java_hash
from rmqlab.runtime.config.tomltext import parse_toml
from rmqlab.store.config import QUEUE_ENTRY_SIZE, StoreConfig
from rmqlab.store.keyindex.indexfile import INDEX_ENTRY
from rmqlab.store.queue.consumequeue import ENTRY

_UNQUEUED = Expected(metric="unqueued NODE", names_victims=True)
_DANGLING = Expected(metric="dangling NODE")
_INDEX_HEAD = 40
"""Bytes of the head of an index file."""
_LAST_TIME = struct.Struct(">8xq")
"""The second number of that head."""
_EARLIER = 60_000
"""Milliseconds."""
_COUNT = struct.Struct(">i")
"""The last number of that head."""
_FEWEST = 8
"""Count of an index file that is too low to be halved."""
_SLOT_SIZE = 4
_NOWHERE = 10**9
"""Distance in bytes from the record's offset to the wrong offset of an entry."""


@attrs.frozen
class QueueEntries:
    """The entries of one consume queue, changed in place."""

    store: Path
    topic: str
    queue_id: int

    @property
    def directory(self) -> Path:
        return self.store / "consumequeue" / self.topic / str(self.queue_id)

    def files(self) -> list[Path]:
        """Return all files, the oldest first. NothingToPlantError without files."""
        found = sorted(path for path in self.directory.glob("*") if path.name.isdecimal())
        if not found:
            raise NothingToPlantError(f"{self.directory} has no queue files")
        return found

    def place(self, offset: int) -> tuple[Path, int]:
        """Return the file of an entry, and its byte offset there.

        NothingToPlantError where no file has it.
        """
        at = offset * QUEUE_ENTRY_SIZE
        for path in self.files():
            first = int(path.name)
            if first <= at < first + path.stat().st_size:
                return path, at - first
        raise NothingToPlantError(f"{self.directory} has no entry {offset}")

    def read(self, offset: int) -> tuple[int, int, int]:
        """Return commit log offset, record size and tags code of an entry."""
        path, at = self.place(offset)
        with path.open("rb") as file:
            file.seek(at)
            log_offset, size, tags_code = ENTRY.unpack(file.read(ENTRY.size))
        return log_offset, size, tags_code

    def entry_of(self, record: StoredMessage) -> tuple[int, int, int]:
        return self.read(record.queue_offset)

    def write(self, offset: int, log_offset: int, size: int, tags_code: int) -> None:
        path, at = self.place(offset)
        overwrite(path, at, ENTRY.pack(log_offset, size, tags_code))

    def count(self) -> int:
        """Return the offset behind the last entry that is not zero."""
        last = self.files()[-1]
        written = last.read_bytes().rstrip(b"\0")
        return (int(last.name) + len(written) + QUEUE_ENTRY_SIZE - 1) // QUEUE_ENTRY_SIZE


def _change_entry(copy: RunCopy, nodes: Nodes, record: StoredMessage, entry: tuple[int, int, int], text: str) -> Change:
    queue = QueueEntries(copy.store(nodes[0]), record.topic, record.queue_id)
    path, at = queue.place(record.queue_offset)
    queue.write(record.queue_offset, *entry)
    return copy.change(nodes, [record], [copy.edit(nodes[0], path, at, text)])


def _entry(copy: RunCopy, node: str, record: StoredMessage) -> tuple[int, int, int]:
    return QueueEntries(copy.store(node), record.topic, record.queue_id).entry_of(record)


def misdirect_entry(copy: RunCopy, nodes: Nodes) -> Change:
    """Let an entry point beyond the end of the log."""
    victim = copy.victim(nodes)
    offset, size, tags_code = _entry(copy, nodes[0], victim)
    text = f"the entry of {unique_id(victim)} points to {offset + _NOWHERE}, beyond the log"
    return _change_entry(copy, nodes, victim, (offset + _NOWHERE, size, tags_code), text)


def point_to_neighbour(copy: RunCopy, nodes: Nodes) -> Change:
    """Let an entry point to the message behind its own."""
    records = copy.acknowledged(nodes)
    victim, other = copy.choose(list(itertools.pairwise(records)), "two messages")
    entry = _entry(copy, nodes[0], victim)
    text = f"the entry of {unique_id(victim)} points to {unique_id(other)}"
    return _change_entry(copy, nodes, victim, (other.physical_offset, other.store_size, entry[2]), text)


def point_inside(copy: RunCopy, nodes: Nodes) -> Change:
    """Let an entry point into the middle of its record."""
    victim = copy.victim(nodes)
    offset, size, tags_code = _entry(copy, nodes[0], victim)
    by = size // 2
    text = f"the entry of {unique_id(victim)} points {by} bytes behind the begin of its record"
    return _change_entry(copy, nodes, victim, (offset + by, size - by, tags_code), text)


def change_tags_code(copy: RunCopy, nodes: Nodes) -> Change:
    """Give an entry the tags code of other tags: brokers filter its message away."""
    victim = copy.victim(nodes)
    offset, size, tags_code = _entry(copy, nodes[0], victim)
    other = java_hash(copy.foreign_id("FORGED"))
    text = f"the entry of {unique_id(victim)} has tags code {other} instead of {tags_code}"
    return _change_entry(copy, nodes, victim, (offset, size, other), text)


def zero_entry(copy: RunCopy, nodes: Nodes) -> Change:
    """Zero an entry in the middle of a queue."""
    victim = copy.victim(nodes)
    return _change_entry(copy, nodes, victim, (0, 0, 0), f"the entry of {unique_id(victim)} zeroed")


def cut_queue(copy: RunCopy, nodes: Nodes) -> Change:
    """Zero the last entry of a queue."""
    ends = {(one.topic, one.queue_id): one for one in copy.acknowledged(nodes)}
    victim = copy.choose(list(ends.values()), "queue that ends in an acknowledged message")
    return _change_entry(copy, nodes, victim, (0, 0, 0), f"the queue's last entry, of {unique_id(victim)}, zeroed")


def delete_queues(copy: RunCopy, nodes: Nodes) -> Change:
    """Delete all queue files of a topic."""
    topic = copy.victim(nodes).topic
    directory = copy.store(nodes[0]) / "consumequeue" / topic
    edit = copy.edit(nodes[0], directory, None, "deleted")
    victims = [record for record in copy.acknowledged(nodes) if record.topic == topic]
    shutil.rmtree(directory)
    return copy.change(nodes, victims, [edit])


def delete_index(copy: RunCopy, nodes: Nodes) -> Change:
    """Delete the newest index file."""
    paths = sorted(path for path in (copy.store(nodes[0]) / "index").glob("*") if path.name.isdecimal())
    if not paths:
        raise NothingToPlantError(f"{nodes[0]} has no index files")
    paths[-1].unlink()
    return copy.change(nodes, [], [copy.edit(nodes[0], paths[-1], None, "deleted")])


def zero_index(copy: RunCopy, nodes: Nodes) -> Change:
    """Zero all of an index file but its head."""
    paths = sorted(path for path in (copy.store(nodes[0]) / "index").glob("*") if path.name.isdecimal())
    path = copy.choose(paths, f"index file of {nodes[0]}")
    overwrite(path, _INDEX_HEAD, bytes(path.stat().st_size - _INDEX_HEAD))
    return copy.change(nodes, [], [copy.edit(nodes[0], path, _INDEX_HEAD, "zeroed from here on")])


def zero_slots(copy: RunCopy, nodes: Nodes) -> Change:
    """Zero the hash slots of an index file; its head and entries stay."""
    paths = sorted(path for path in (copy.store(nodes[0]) / "index").glob("*") if path.name.isdecimal())
    path = copy.choose(paths, f"index file of {nodes[0]}")
    slots, _ = index_size(copy.root / nodes[0] / "config.toml")
    overwrite(path, _INDEX_HEAD, bytes(_SLOT_SIZE * slots))
    return copy.change(nodes, [], [copy.edit(nodes[0], path, _INDEX_HEAD, f"{slots} hash slots zeroed")])


def zero_index_entry(copy: RunCopy, nodes: Nodes) -> Change:
    """Zero one entry of an index file."""
    path, at = _an_index_entry(copy, nodes[0])
    overwrite(path, at, bytes(INDEX_ENTRY.size))
    return copy.change(nodes, [], [copy.edit(nodes[0], path, at, "an entry zeroed")])


def change_index_link(copy: RunCopy, nodes: Nodes) -> Change:
    """Let an entry of an index file lead to another one before it."""
    path, at = _an_index_entry(copy, nodes[0])
    hashed, offset, seconds, before = INDEX_ENTRY.unpack_from(path.read_bytes(), at)
    overwrite(path, at, INDEX_ENTRY.pack(hashed, offset, seconds, before + 1))
    return copy.change(nodes, [], [copy.edit(nodes[0], path, at, f"the entry leads to {before + 1}, not to {before}")])


def _an_index_entry(copy: RunCopy, node: str) -> tuple[Path, int]:
    """Choose an entry in the middle of an index file; return file and place."""
    path, count = copy.choose(_counted_indexes(copy, node), f"index file of {node} with entries")
    slots, _ = index_size(copy.root / node / "config.toml")
    number = copy.choose(range(2, count - 1), f"entry in the middle of an index file of {node}")
    return path, _INDEX_HEAD + _SLOT_SIZE * slots + INDEX_ENTRY.size * number


def lower_index_count(copy: RunCopy, nodes: Nodes) -> Change:
    """Let the head of an index file state half of its entries."""
    path, count = copy.choose(_counted_indexes(copy, nodes[0]), f"index file of {nodes[0]} with entries")
    content = bytearray(path.read_bytes())
    _COUNT.pack_into(content, _INDEX_HEAD - _COUNT.size, count // 2)
    path.write_bytes(content)
    return copy.change(
        nodes, [], [copy.edit(nodes[0], path, _INDEX_HEAD - _COUNT.size, f"{count} set to {count // 2}")]
    )


def lower_index_time(copy: RunCopy, nodes: Nodes) -> Change:
    """Let the head of an index file state a time of its last message a minute earlier."""
    path, _ = copy.choose(_counted_indexes(copy, nodes[0]), f"index file of {nodes[0]} with entries")
    content = bytearray(path.read_bytes())
    (millis,) = _LAST_TIME.unpack_from(content)
    struct.pack_into(">q", content, 8, millis - _EARLIER)
    path.write_bytes(content)
    return copy.change(nodes, [], [copy.edit(nodes[0], path, 8, f"{millis} set to {millis - _EARLIER}")])


def rename_index(copy: RunCopy, nodes: Nodes) -> Change:
    """Give an index file a name that no broker gives."""
    path, _ = copy.choose(_counted_indexes(copy, nodes[0]), f"index file of {nodes[0]} with entries")
    renamed = path.rename(path.with_name(f"{path.name}.old"))
    edits = [copy.edit(nodes[0], path, None, "renamed"), copy.edit(nodes[0], renamed, None, f"was {path.name}")]
    return copy.change(nodes, [], edits)


def copy_index(copy: RunCopy, nodes: Nodes) -> Change:
    """Copy an index file to a name of a millisecond later."""
    path, _ = copy.choose(_counted_indexes(copy, nodes[0]), f"index file of {nodes[0]} with entries")
    later = path.with_name(str(int(path.name) + 1))
    shutil.copy(path, later)
    return copy.change(nodes, [], [copy.edit(nodes[0], later, None, f"a copy of {path.name}")])


def _counted_indexes(copy: RunCopy, node: str) -> list[tuple[Path, int]]:
    """Return the index files of a node, and the count in the head of each."""
    paths = sorted(path for path in (copy.store(node) / "index").glob("*") if path.name.isdecimal())
    counts = [_COUNT.unpack_from(path.read_bytes(), _INDEX_HEAD - _COUNT.size)[0] for path in paths]
    return [(path, count) for path, count in zip(paths, counts, strict=True) if count > _FEWEST]


def index_size(config: Path) -> tuple[int, int]:
    """Slots and entries of a node's index files, as its settings say."""
    settings = parse_toml(config.read_text()) if config.is_file() else {}
    given = {key: settings[key] for key in ("max_hash_slot_num", "max_index_num") if key in settings}
    store = StoreConfig(**given)
    return store.max_hash_slot_num, store.max_index_num


QUEUES = (
    Kind(
        name="queue-entry-astray",
        does="a consume queue entry points beyond the log",
        where=any_broker,
        change=misdirect_entry,
        expects=(_DANGLING, _UNQUEUED),
    ),
    Kind(
        name="queue-entry-wrong",
        does="a consume queue entry points to another message",
        where=any_broker,
        change=point_to_neighbour,
        expects=(_DANGLING, _UNQUEUED),
    ),
    Kind(
        name="queue-entry-zeroed",
        does="a consume queue entry is zeroed in the middle of the queue",
        where=any_broker,
        change=zero_entry,
        expects=(_UNQUEUED,),
        consequences=("dangling",),
    ),
    Kind(
        name="queue-end-missing",
        does="the last entry of a consume queue is missing",
        where=any_broker,
        change=cut_queue,
        expects=(_UNQUEUED,),
    ),
    Kind(
        name="queues-deleted",
        does="a topic's consume queue files are deleted at one node",
        where=any_broker,
        change=delete_queues,
        expects=(_UNQUEUED,),
        consequences=("dangling",),
    ),
    Kind(
        name="index-missing",
        does="the newest index file is deleted at one node",
        where=any_broker,
        change=delete_index,
        expects=(Expected(metric="unindexed NODE"),),
    ),
    Kind(
        name="queue-entry-inside",
        does="a consume queue entry points into the middle of its record",
        where=any_broker,
        change=point_inside,
        expects=(_DANGLING, _UNQUEUED),
    ),
    Kind(
        name="queue-entry-tags",
        does="a consume queue entry has the tags code of other tags",
        where=any_broker,
        change=change_tags_code,
        expects=(Expected(metric="dangling NODE", names_victims=True),),
    ),
    Kind(
        name="index-entry-zeroed",
        does="an entry of an index file is zeroed",
        where=any_broker,
        change=zero_index_entry,
        expects=(WARNING,),
    ),
    Kind(
        name="index-link-changed",
        does="an entry of an index file leads to another one of its hash slot",
        where=any_broker,
        change=change_index_link,
        expects=(WARNING,),
    ),
    Kind(
        name="index-zeroed",
        does="an index file is zeroed behind its head",
        where=any_broker,
        change=zero_index,
        expects=(WARNING,),
    ),
    Kind(
        name="index-count-lowered",
        does="the head of an index file states half of its entries",
        where=any_broker,
        change=lower_index_count,
        expects=(WARNING,),
    ),
    Kind(
        name="index-time-lowered",
        does="the head of an index file has an earlier time of its last message",
        where=any_broker,
        change=lower_index_time,
        expects=(WARNING,),
    ),
    Kind(
        name="index-renamed",
        does="an index file has a name that no broker gives",
        where=any_broker,
        change=rename_index,
        expects=(WARNING,),
    ),
    Kind(
        name="index-copied",
        does="an index file is there twice, under two names",
        where=any_broker,
        change=copy_index,
        expects=(WARNING,),
    ),
    Kind(
        name="index-slots-zeroed",
        does="the hash slots of an index file are zeroed, its head and entries are there",
        where=any_broker,
        change=zero_slots,
        expects=(WARNING,),
    ),
)
