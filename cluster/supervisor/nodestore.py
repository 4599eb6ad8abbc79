"""The files of a node that does not run: what a start, a power loss and a wipe work on.

Where they lie follows from the cluster's own record, never from the settings file, which the node itself writes
(request 25 and 318). Nothing outside the node's directory is touched, links resolved (issue 12.1).

Source: issue 3 item 7. All of it blocks, for files may be large: call it in a thread.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmqlab.cluster.supervisor.directory import ClusterDirectory
from rmqlab.cluster.supervisor.private_file import write_private
from rmqlab.cluster.supervisor.topology import Node, NodeKind, node_paths, toml_text
from rmqlab.store.config import StoreConfig
from rmqlab.store.configfile import backup_path
from rmqlab.store.powerloss import Lost, has_store, lose_unsynced, wipe_store


class NothingToWipeError(Exception):
    """The node keeps nothing on disk, or has nothing there."""


class OutsideError(Exception):
    """A node's files lie outside its directory, or its settings say so. The text names the path and what to do."""


def write_settings(directory: ClusterDirectory, node: str, settings: Mapping[str, Any]) -> None:
    """Write a node's settings file anew, never through a link. OutsideError for a node's directory that is one."""
    data_dir, path = directory.data_dir(node), directory.config_path(node)
    data_dir.mkdir(mode=0o700, exist_ok=True)
    _refuse_outside(directory, node, data_dir)
    fresh = path.with_suffix(".toml.new")
    fresh.unlink(missing_ok=True)
    write_private(fresh, toml_text(settings))
    fresh.replace(path)


def store_config(directory: ClusterDirectory, node: str) -> StoreConfig:
    """The store of a broker."""
    return StoreConfig(store_path_root_dir=node_paths(NodeKind.BROKER, directory.data_dir(node))["store_path_root_dir"])


def lose_power(directory: ClusterDirectory, node: Node) -> Lost:
    """Erase what a broker had not synced; other nodes have nothing that waits for a sync.

    StoreError if it cannot be; OutsideError as `check_inside`.
    """
    check_inside(directory, node.name)
    return lose_unsynced(store_config(directory, node.name)) if node.kind is NodeKind.BROKER else Lost()


def check_wipeable(directory: ClusterDirectory, node: Node) -> None:
    """NothingToWipeError for a node that has no data; OutsideError as `check_inside`."""
    check_inside(directory, node.name)
    match node.kind:
        case NodeKind.BROKER:
            has_data = has_store(store_config(directory, node.name))
        case NodeKind.NAMESERVER:
            has_data = any(path.exists() for path in _nameserver_files(directory, node))
        case _:
            has_data = False
    if not has_data:
        raise NothingToWipeError(f"{node.name} is a {node.kind} that has no data on disk: there is nothing to wipe")


def wipe(directory: ClusterDirectory, node: Node) -> int:
    """Delete the data of a node, and neither its settings nor its log; answer how many files it were.

    OutsideError as `check_inside`.
    """
    check_inside(directory, node.name)
    if node.kind is NodeKind.BROKER:
        return wipe_store(store_config(directory, node.name))
    present = [path for path in _nameserver_files(directory, node) if path.exists()]
    for path in present:
        path.unlink()
    return len(present)


def check_startable(directory: ClusterDirectory, node: Node) -> None:
    """OutsideError for a node that would write elsewhere than in its directory."""
    check_inside(directory, node.name)
    config_path = directory.config_path(node.name)
    try:
        settings = tomllib.loads(config_path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return  # the node says what is wrong with the file, better than we could
    paths = node_paths(node.kind, directory.data_dir(node.name))
    if node.kind is NodeKind.BROKER and "store_path_commit_log" in settings:
        paths["store_path_commit_log"] = store_config(directory, node.name).store_path_commit_log
    for key, path in paths.items():
        if settings.get(key) != str(path):
            raise OutsideError(
                f"{config_path}: {key} = {settings.get(key)!r}: expected {str(path)!r}, for a node keeps its files in"
                " its own directory; write that there, or stop the cluster and start it again with `rmqlab up`"
            )


def check_inside(directory: ClusterDirectory, node: str) -> None:
    """OutsideError for a node's directory that is, or has, a link to somewhere outside of it."""
    data_dir = directory.data_dir(node)
    _refuse_outside(directory, node, data_dir)
    for folder, directories, files in os.walk(data_dir):
        for name in (*directories, *files):
            if (path := Path(folder, name)).is_symlink():
                _refuse_outside(directory, node, path)


def _refuse_outside(directory: ClusterDirectory, node: str, path: Path) -> None:
    home, real = directory.path.resolve() / node, path.resolve()
    if real != home and not real.is_relative_to(home):
        raise OutsideError(
            f"{path} is a link to {real}, outside the node's directory, where nothing is written or deleted: put the"
            " files in its place, or the whole cluster on that disk (RMQLAB_HOME)"
        )


def _nameserver_files(directory: ClusterDirectory, node: Node) -> list[Path]:
    """What a nameserver may have written: nothing, until somebody sets a key or changes a setting."""
    paths = [*node_paths(node.kind, directory.data_dir(node.name)).values()]
    return [*paths, *map(backup_path, paths)]
