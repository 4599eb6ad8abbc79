"""The files of a node that does not run, as its settings name them: what a power loss and a wipe work on.

Source: design section 8, issue 3 item 7. Both block, for files may be large: call them in a thread.
"""

import tomllib
from pathlib import Path
from typing import Any

from cluster.directory import ClusterDirectory
from cluster.topology import Node, NodeKind
from remoting.settings import Settings
from store.config import StoreConfig
from store.configfile import backup_path
from store.powerloss import Lost, has_store, lose_unsynced, wipe_store

_NAMESERVER_FILES = ("kv_config_path", "config_store_path")


class NothingToWipeError(Exception):
    """The node keeps nothing on disk, or has nothing there."""


def store_config(directory: ClusterDirectory, node: str) -> StoreConfig:
    """The store of a broker."""
    return Settings(str(directory.config_path(node)), _settings(directory, node), {}).bind(StoreConfig)


def lose_power(directory: ClusterDirectory, node: Node) -> Lost:
    """Erase what a broker had not synced; other nodes have nothing that waits for a sync. StoreError if it cannot be."""
    return lose_unsynced(store_config(directory, node.name)) if node.kind is NodeKind.BROKER else Lost()


def check_wipeable(directory: ClusterDirectory, node: Node) -> None:
    """NothingToWipeError for a node that has no data."""
    match node.kind:
        case NodeKind.BROKER:
            has_data = has_store(store_config(directory, node.name))
        case NodeKind.NAMESERVER:
            has_data = any(path.exists() for path in _nameserver_files(directory, node.name))
        case _:
            has_data = False
    if not has_data:
        raise NothingToWipeError(f"{node.name} is a {node.kind} that has no data on disk: there is nothing to wipe")


def wipe(directory: ClusterDirectory, node: Node) -> int:
    """Delete the data of a node, and neither its settings nor its log; answer how many files it were."""
    if node.kind is NodeKind.BROKER:
        return wipe_store(store_config(directory, node.name))
    present = [path for path in _nameserver_files(directory, node.name) if path.exists()]
    for path in present:
        path.unlink()
    return len(present)


def _nameserver_files(directory: ClusterDirectory, node: str) -> list[Path]:
    """What a nameserver may have written: nothing, until somebody sets a key or changes a setting."""
    settings = _settings(directory, node)
    paths = [Path(settings[key]) for key in _NAMESERVER_FILES if key in settings]
    return [*paths, *map(backup_path, paths)]


def _settings(directory: ClusterDirectory, node: str) -> dict[str, Any]:
    return tomllib.loads(directory.config_path(node).read_text())
