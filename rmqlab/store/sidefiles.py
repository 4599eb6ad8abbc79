"""Finds tables and index files of a store that its broker cannot have written.

Both judges print a warning for each. Metrics use these files only if they can be read.
"""

import array
import contextlib
import os
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rmqlab.remoting.bodies.group import SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.remoting.bodies.topic import TopicConfigSerializeWrapper
from rmqlab.remoting.body import Body
from rmqlab.remoting.message import (
    FIXED_SIZE,
    PROPERTY_KEYS,
    PROPERTY_UNIQ_KEY,
    RecordError,
    StoredMessage,
    decode_message,
)
from rmqlab.remoting.names import BUILT_IN_GROUPS, REPLY_TOPIC_SUFFIX, is_system_topic
from rmqlab.runtime.regularfile import open_regular, read_regular
from rmqlab.runtime.tomltext import parse_toml
from rmqlab.store.config import StoreConfig
from rmqlab.store.index import key_hash
from rmqlab.store.irregularfiles import unreadable
from rmqlab.store.loglayout import files_in, log_directory

_TOPICS: Final = "topics.json"
_GROUPS: Final = "subscriptionGroup.json"
_OFFSETS: Final = "consumerOffset.json"
_DELAYS: Final = "delayOffset.json"
_TABLES: Final[dict[str, Callable[[bytes], Body]]] = {
    _TOPICS: TopicConfigSerializeWrapper.decode,
    _GROUPS: SubscriptionGroupWrapper.decode,
    _OFFSETS: ConsumerOffsets.decode,
    _DELAYS: DelayOffsets.decode,
}
_OWN_GROUPS: Final = "CID_RMQ_SYS_"
"""Prefix of the groups of a broker's own services, which subscriptionGroup.json lacks."""
_HEAD: Final = struct.Struct(">qqqqii")
_ENTRY: Final = struct.Struct(">iqii")
_SLOT_SIZE: Final = 4
_LARGEST_RECORD: Final = 16 * 2**20
"""Bytes: a wrong entry may point at any four bytes, and a record has at most 4 MB of body by default."""
_TRIED: Final = 60
"""Entries of an index file that are compared with their records."""
_FEW: Final = 9
"""Entries that may be wrong because their records are damaged."""


def side_file_warnings(
    roots: Mapping[str, Path],
    followers: Mapping[str, str],
    *,
    masters: Collection[str],
    after_power_loss: Collection[str],
    unclean: Collection[str],
) -> Iterator[str]:
    """Yield a line for each faulty table or index file, with its node.

    `roots` are stores by node, `followers` masters by slave, `masters` the nodes that were masters at last. Unreadable
    tables of nodes in `after_power_loss` are not reported, nor index files of nodes in `unclean`: an unclean stop
    leaves index entries of truncated records. Raises OSError.
    """
    for node, root in sorted(roots.items()):
        lines = [] if node in after_power_loss else list(unreadable_tables(root))
        lines += unreadable_files(root)
        if node not in unclean:
            lines += missing_tables(root, is_master=node in masters)
            lines += [] if any(unreadable(root / "index")) else foreign_indexes(root)
        yield from (f"{node}: {line}" for line in lines)
    yield from shared_logs(roots)
    for slave, master in sorted(followers.items()):
        if {slave, master} <= roots.keys():
            yield from (f"{slave}, {master}: {line}" for line in differing_tables(roots[slave], roots[master]))


def unreadable_tables(root: Path) -> Iterator[str]:
    """Yield the tables in `config` that exist and cannot be read, with the reason."""
    for name, decode in _TABLES.items():
        try:
            decode(read_regular(root / "config" / name))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is no such table"
            yield f"{root.name}/config/{name} cannot be read: {why}"


def missing_tables(root: Path, *, is_master: bool) -> Iterator[str]:
    """Yield the tables that the broker certainly wrote, and that are missing."""
    for name in _written_tables(root, is_master=is_master) if (root / "lock").exists() else ():
        if not os.path.lexists(root / "config" / name):
            yield f"{root.name}/config/{name} is missing, although the broker stopped in good order"


def _written_tables(root: Path, *, is_master: bool) -> Iterator[str]:
    """Yield the tables that a broker has written by its stop.

    It writes offsets at every stop, but topics and groups when they change: an idle broker has neither file. A slave
    has those tables, and delayOffset.json, once it copied them from a master.
    """
    yield _OFFSETS
    if not is_master:
        return
    yield _DELAYS
    queues = root / "consumequeue"
    if queues.is_dir() and not all(_is_built_in(path.name, root.parent.name) for path in queues.iterdir()):
        yield _TOPICS
    offsets = _table(root, _OFFSETS)
    keys = offsets.offset_table if isinstance(offsets, ConsumerOffsets) else {}
    groups = {key.partition("@")[2] for key in keys} - {*BUILT_IN_GROUPS}
    if any(not group.startswith(_OWN_GROUPS) for group in groups):
        yield _GROUPS


def _is_built_in(topic: str, node: str) -> bool:
    """Return True for a topic that a broker has without any request.

    A master is named as its broker name.
    """
    return is_system_topic(topic) or topic in (node, "DefaultCluster") or topic.endswith(REPLY_TOPIC_SUFFIX)


def shared_logs(roots: Mapping[str, Path]) -> Iterator[str]:
    """Yield nodes whose log files are links to those of another node."""
    owners: dict[tuple[int, int], str] = {}
    for node, root in sorted(roots.items()):
        files = [path.stat() for path in files_in(log_directory(root))]
        others = {owners.setdefault((one.st_dev, one.st_ino), node) for one in files} - {node}
        for other in sorted(others):
            yield (
                f"{node}: {root.name}/{log_directory(root).name} has files of {other} by links: its log is no copy of"
                " its own"
            )


def unreadable_files(root: Path) -> Iterator[str]:
    """Yield the paths of queues and index without read permission."""
    for place in ("consumequeue", "index"):
        yield from (f"{path.relative_to(root.parent)} cannot be read" for path in unreadable(root / place))


def differing_tables(root: Path, other: Path) -> Iterator[str]:
    """Yield topics and groups that differ in two stores, at one version of the table.

    Every change of a table changes its version, and a slave copies tables with their version. So another program
    changed one of the files.
    """
    for name, what in ((_TOPICS, "topic_config_table"), (_GROUPS, "subscription_group_table")):
        tables = [_table(place, name) for place in (root, other)]
        versions = [getattr(table, "data_version", None) for table in tables]
        if None in versions or versions[0] != versions[1]:
            continue
        one, two = (getattr(table, what) for table in tables)
        differing = sorted(key for key in one.keys() & two.keys() if one[key] != two[key])
        if differing:
            yield f"config/{name}: {', '.join(differing[:5])} differ, at the same version of the table"


def _table(root: Path, name: str) -> Body | None:
    with contextlib.suppress(OSError, ValueError):
        return _TABLES[name](read_regular(root / "config" / name))
    return None


def foreign_indexes(root: Path) -> Iterator[str]:
    """Yield index files with many entries that do not lead to their records.

    Entries of expired records are not checked; a few wrong entries point to a damaged log. Raises OSError if a file
    cannot be read.
    """
    slots, most = _index_sizes(root.parent / "config.toml")
    logs = [(int(path.name), path.stat().st_size, path) for path in files_in(log_directory(root))]
    for path in sorted(one for one in (root / "index").glob("*") if one.name.isdecimal() and one.is_file()):
        entries_at = _HEAD.size + _SLOT_SIZE * slots
        if path.stat().st_size != entries_at + _ENTRY.size * most:
            continue  # the sizes are of other settings
        tried = [_is_key_of(logs, hashed, offset) for hashed, offset in _entries(path, entries_at, most)]
        known = [is_right for is_right in tried if is_right is not None]
        wrong = known.count(False)
        if not tried and _last_offset(path):
            yield f"{root.name}/index/{path.name}: it states messages up to {_last_offset(path)}, and has no entries"
        if known and (wrong == len(known) or wrong > max(_FEW, len(known) // 5)):
            yield (
                f"{root.name}/index/{path.name}: {wrong} of {len(known)} entries that were tried do not lead to a"
                " record with such a key: it is damaged, or the index of another broker"
            )
            continue
        stated, used = _slots(path, slots)
        if used < stated // 2:
            yield (
                f"{root.name}/index/{path.name}: {stated - used} of its {stated} hash slots are empty: queries do not"
                " find their keys"
            )


def _index_sizes(config: Path) -> tuple[int, int]:
    """Return the slots and entries of a node's index files.

    From its settings; RocketMQ's defaults without valid settings.
    """
    store = StoreConfig()
    with contextlib.suppress(OSError, ValueError, RecursionError):
        settings = parse_toml(read_regular(config).decode())
        keys = ("max_hash_slot_num", "max_index_num")
        store = StoreConfig(**{key: settings[key] for key in keys if isinstance(settings.get(key), int)})
    return store.max_hash_slot_num, store.max_index_num


def _entries(path: Path, entries_at: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield key hash and commit log offset of some entries, evenly spread.

    RocketMQ never uses the first one.
    """
    with open_regular(path) as file:
        *_, count = _HEAD.unpack(file.read(_HEAD.size))
        count = min(max(count, 1), most)
        for number in range(1, count, max(1, (count - 1) // _TRIED)):
            file.seek(entries_at + _ENTRY.size * number)
            hashed, offset, _, _ = _ENTRY.unpack(file.read(_ENTRY.size))
            yield hashed, offset


def _slots(path: Path, slots: int) -> tuple[int, int]:
    """Return how many hash slots an index file states to use, and how many it uses."""
    with open_regular(path) as file:
        *_, stated, _ = _HEAD.unpack(file.read(_HEAD.size))
        values = array.array("i", file.read(_SLOT_SIZE * slots))
    return int(stated), len(values) - values.count(0)


def _last_offset(path: Path) -> int:
    """Return the commit log offset up to which an index file states messages."""
    with open_regular(path) as file:
        return int(_HEAD.unpack(file.read(_HEAD.size))[3])


def _is_key_of(logs: Sequence[tuple[int, int, Path]], hashed: int, offset: int) -> bool | None:
    """Return whether the record at a commit log offset has a key with this hash.

    None for a record in a file that is expired or missing. `logs` are begin, size and path of the log's files.
    """
    if logs and not 0 <= offset < logs[-1][0] + logs[-1][1]:
        return False
    for begin, size, path in logs:
        if begin <= offset < begin + size:
            record = _record(path, offset - begin)
            return record is not None and hashed in {key_hash(key) for key in _keys(record)}
    return None


def _record(path: Path, at: int) -> StoredMessage | None:
    with open_regular(path) as file:
        file.seek(at)
        size = int.from_bytes(file.read(4), "big")
        file.seek(at)
        data = file.read(size) if FIXED_SIZE <= size <= _LARGEST_RECORD else b""
    with contextlib.suppress(RecordError, struct.error, UnicodeDecodeError):
        return decode_message(memoryview(data), 0)
    return None


def _keys(record: StoredMessage) -> Iterator[bytes]:
    words = [record.properties.get(PROPERTY_UNIQ_KEY, ""), *record.properties.get(PROPERTY_KEYS, "").split(" ")]
    return (f"{record.topic}#{word}".encode() for word in words if word)
