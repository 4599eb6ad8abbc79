"""The files of a stopped node: used by starts, power losses and wipes.

Their paths follow from the cluster's record, never from the settings file, which the node itself writes (requests 25
and 318). No file outside the node's directory is accessed, with links resolved (issue 12.1).

Source: issue 3 item 7. All functions block, possibly for long with large files: call them in a thread.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.files.private_file import write_private
from rmqlab.cluster.supervisor.plan.nodesettings import node_paths, toml_text
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind
from rmqlab.runtime.config.settings import MOST_BYTES
from rmqlab.runtime.config.tomltext import parse_toml
from rmqlab.runtime.regularfile import read_regular_text
from rmqlab.store.config import StoreConfig
from rmqlab.store.files.configfile import backup_path
from rmqlab.store.offline.powerloss import Lost, has_store, lose_unsynced, wipe_store


class NothingToWipeError(Exception):
    """The node has no data on disk."""


class OutsideError(Exception):
    """A node's files, or the paths in its settings, are outside its directory.

    The message suggests a remedy.
    """


def write_settings(directory: ClusterDirectory, node: str, settings: Mapping[str, Any]) -> None:
    """Replace a node's settings file, never through a link.

    OutsideError if the node's directory is a link.
    """
    data_dir, path = directory.data_dir(node), directory.config_path(node)
    data_dir.mkdir(mode=0o700, exist_ok=True)
    _refuse_outside(directory, node, data_dir)
    fresh = path.with_suffix(".toml.new")
    fresh.unlink(missing_ok=True)
    write_private(fresh, toml_text(settings))
    fresh.replace(path)


def write_role(directory: ClusterDirectory, node: Node) -> None:
    """Write role and broker id of a stopped broker into its settings file.

    Errors as `change_settings`.
    """
    change_settings(directory, node.name, {"broker_role": node.role, "broker_id": node.broker_id})


def change_settings(directory: ClusterDirectory, node: str, changes: Mapping[str, Any]) -> None:
    """Change settings in the file of a stopped node.

    Its other settings are kept. OSError or ValueError for a file that cannot be read; OutsideError as `write_settings`.
    """
    path = directory.config_path(node)
    try:
        settings = parse_toml(read_regular_text(path, MOST_BYTES))
    except RecursionError:
        raise ValueError(f"{path}: lists or tables are nested too deep") from None
    write_settings(directory, node, {**settings, **changes})


def store_config(directory: ClusterDirectory, node: str) -> StoreConfig:
    """Return the path of a broker's store."""
    return StoreConfig(store_path_root_dir=node_paths(NodeKind.BROKER, directory.data_dir(node))["store_path_root_dir"])


def lose_power(directory: ClusterDirectory, node: Node) -> Lost:
    """Erase the data that a broker has not synced to disk.

    Other nodes have no unsynced data.

    StoreError if that fails; OutsideError as in `check_inside`.
    """
    check_inside(directory, node.name)
    return lose_unsynced(store_config(directory, node.name)) if node.kind is NodeKind.BROKER else Lost()


def check_wipeable(directory: ClusterDirectory, node: Node) -> None:
    """NothingToWipeError for a node without data; OutsideError as in `check_inside`."""
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
    """Delete the data of a node, but not its settings and log.

    Return the number of deleted files.

    OutsideError as in `check_inside`.
    """
    check_inside(directory, node.name)
    if node.kind is NodeKind.BROKER:
        return wipe_store(store_config(directory, node.name))
    present = [path for path in _nameserver_files(directory, node) if path.exists()]
    for path in present:
        path.unlink()
    return len(present)


def check_startable(directory: ClusterDirectory, node: Node) -> None:
    """OutsideError for a node that would write outside its directory."""
    check_inside(directory, node.name)
    config_path = directory.config_path(node.name)
    try:
        settings = parse_toml(read_regular_text(config_path, MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return  # the node reports the error in its file at its start
    paths = node_paths(node.kind, directory.data_dir(node.name))
    if node.kind is NodeKind.BROKER and "store_path_commit_log" in settings:
        paths["store_path_commit_log"] = store_config(directory, node.name).store_path_commit_log
    for key, path in paths.items():
        if settings.get(key) != str(path):
            raise OutsideError(
                f"{config_path}: {key} = {settings.get(key)!r}: expected {str(path)!r}, because a node keeps its files"
                " in its own directory; correct the value, or stop the cluster and start it again with `rmqlab up`"
            )


def check_inside(directory: ClusterDirectory, node: str) -> None:
    """Raise OutsideError if a node's directory is, or has, a link to a path outside."""
    data_dir = directory.data_dir(node)
    _refuse_outside(directory, node, data_dir)
    for folder, directories, files in os.walk(data_dir):
        for name in (*directories, *files):
            if (path := Path(folder, name)).is_symlink():
                _refuse_outside(directory, node, path)


def _refuse_outside(directory: ClusterDirectory, node: str, path: Path) -> None:
    if _leads_to_itself(path):
        raise OutsideError(f"{path} is a link that leads to itself: expected the node's own file")
    home, real = directory.path.resolve() / node, path.resolve()
    if real != home and not real.is_relative_to(home):
        raise OutsideError(
            f"{path} is a link to {real}, outside the node's directory, where nothing is written or deleted: replace"
            " the link by the files, or keep the whole cluster on that disk (RMQLAB_HOME)"
        )


def _leads_to_itself(path: Path) -> bool:
    """Return True for a link in a loop.

    `Path.resolve` raises for it until Python 3.12, and returns it later.
    """
    try:
        path.stat()
    except OSError as exc:
        return exc.errno == errno.ELOOP
    return False


def _nameserver_files(directory: ClusterDirectory, node: Node) -> list[Path]:
    """Return the data files of a nameserver, created by changes of keys and settings."""
    paths = [*node_paths(node.kind, directory.data_dir(node.name)).values()]
    return [*paths, *map(backup_path, paths)]
