"""Finds tables and index files of a store that its broker cannot have written.

Both judges print a warning for each. Metrics use these files only if they can be read.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from rmqlab.remoting.bodies.filter import FilterTableBody
from rmqlab.remoting.bodies.group import SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.remoting.bodies.topic import TopicConfigSerializeWrapper
from rmqlab.remoting.body import Body
from rmqlab.remoting.names import BUILT_IN_GROUPS, REPLY_TOPIC_SUFFIX, is_system_topic
from rmqlab.runtime.regularfile import read_regular
from rmqlab.store.log.loglayout import files_in, log_directory
from rmqlab.store.offline.indexfiles import foreign_indexes, odd_index_names
from rmqlab.store.offline.irregularfiles import unreadable

_TOPICS: Final = "topics.json"
_GROUPS: Final = "subscriptionGroup.json"
_OFFSETS: Final = "consumerOffset.json"
_DELAYS: Final = "delayOffset.json"
_FILTERS: Final = "consumerFilter.json"
_TABLES: Final[dict[str, Callable[[bytes], Body]]] = {
    _TOPICS: TopicConfigSerializeWrapper.decode,
    _GROUPS: SubscriptionGroupWrapper.decode,
    _OFFSETS: ConsumerOffsets.decode,
    _DELAYS: DelayOffsets.decode,
    _FILTERS: FilterTableBody.decode,
}
COPIED: Final = "groups_synced"
"""Kind of the event of a slave that copied its master's groups."""
_OWN_GROUPS: Final = "CID_RMQ_SYS_"
"""Prefix of the groups of a broker's own services, which subscriptionGroup.json lacks."""


def side_file_warnings(
    roots: Mapping[str, Path],
    followers: Mapping[str, str],
    *,
    masters: Collection[str],
    copiers: Collection[str] = (),
    after_power_loss: Collection[str],
    unclean: Collection[str],
    are_clocks_right: bool = True,
) -> Iterator[str]:
    """Yield a line for each faulty table or index file, with its node.

    `roots` are stores by node, `followers` masters by slave, `masters` the nodes that were masters at last, `copiers`
    those that recorded in this run that they copied a master's groups. Unreadable tables of nodes in `after_power_loss`
    are not reported, nor index files of nodes in `unclean`: an unclean stop leaves index entries of truncated records. Without `are_clocks_right`, names of index files are no evidence: a clock
    that goes back gives a newer file an older name. Raises OSError.
    """
    for node, root in sorted(roots.items()):
        lines = [] if node in after_power_loss else list(unreadable_tables(root))
        lines += unreadable_files(root)
        if node not in unclean:
            lines += missing_tables(root, is_master=node in masters, has_copied=node in copiers)
            if not any(unreadable(root / "index")):
                lines += [*(odd_index_names(root) if are_clocks_right else ()), *foreign_indexes(root)]
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


def missing_tables(root: Path, *, is_master: bool, has_copied: bool = False) -> Iterator[str]:
    """Yield the tables that the broker certainly wrote, and that are missing."""
    written = dict.fromkeys([*_written_tables(root, is_master=is_master), *([_GROUPS] if has_copied else ())])
    for name in written if (root / "lock").exists() else ():
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
    if _has_own_topics(root):
        yield _TOPICS
    offsets = _table(root, _OFFSETS)
    keys = offsets.offset_table if isinstance(offsets, ConsumerOffsets) else {}
    groups = {key.partition("@")[2] for key in keys} - {*BUILT_IN_GROUPS}
    if any(not group.startswith(_OWN_GROUPS) for group in groups):
        yield _GROUPS


def _has_own_topics(root: Path) -> bool:
    """Return True if there are queues of topics that a broker has only by a request.

    False if the queues cannot be read, which their own metrics report.
    """
    try:
        return not all(_is_built_in(path.name, root.parent.name) for path in (root / "consumequeue").iterdir())
    except OSError:
        return False


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
    changed one of the files. Topics that a broker has without any request may be in one of them alone.
    """
    nodes = (root.parent.name, other.parent.name)
    for name, what in ((_TOPICS, "topic_config_table"), (_GROUPS, "subscription_group_table")):
        tables = [_table(place, name) for place in (root, other)]
        versions = [getattr(table, "data_version", None) for table in tables]
        if None in versions or versions[0] != versions[1]:
            continue
        one, two = (getattr(table, what) for table in tables)
        own = {key for key in one.keys() ^ two.keys() if any(_is_built_in(key, node) for node in nodes)}
        differing = sorted(key for key in (one.keys() | two.keys()) - own if one.get(key) != two.get(key))
        if differing:
            yield f"config/{name}: {', '.join(differing[:5])} differ, at the same version of the table"


def _table(root: Path, name: str) -> Body | None:
    with contextlib.suppress(OSError, ValueError):
        return _TABLES[name](read_regular(root / "config" / name))
    return None
