"""Clusters of this machine, and the files of stopped ones."""

import contextlib
import errno
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.output.uncuttable import UncutTable
from rmqlab.cluster.cli.terms import fail, json_option, print_json
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, Record, RecordError
from rmqlab.cluster.supervisor.plan.topology import namesrv_addr
from rmqlab.runtime.regularfile import read_regular
from rmqlab.runtime.text.printable import printable_values
from rmqlab.verdict.runs import home

Document = Mapping[str, Any]
RUNNING, STOPPED, UNKNOWN, DAMAGED = "running", "stopped", "unknown", "damaged"
_STYLES = {RUNNING: "green", STOPPED: "dim", UNKNOWN: "yellow", DAMAGED: "red"}


@click.command()
@json_option
def ls(*, as_json: bool) -> None:
    """List the clusters of this machine: running or stopped, and where.

    Lists the clusters in ~/.rmqlab or $RMQLAB_HOME, and the running clusters of scenarios there.
    """
    _check_home()
    clusters = [describe(directory, record) for directory, record in _found()]
    if as_json:
        print_json(clusters)
    elif clusters:
        console.print(_table(clusters))
    else:
        console.print(f"no clusters found in {home()}; start one with: rmqlab up")


def _check_home() -> None:
    """End the command if the home exists, but is no directory that this user may read."""
    try:
        with os.scandir(f"{home()}/."):  # needs the right to enter it, too
            pass
    except FileNotFoundError:
        return
    except NotADirectoryError:
        fail(f"{home()} is not a directory: expected that of the clusters (see RMQLAB_HOME)")
    except OSError as exc:
        fail(f"{home()}: {exc.strerror}: its clusters cannot be listed")


def _found() -> Iterator[tuple[ClusterDirectory, Record | None]]:
    """Yield the clusters of the home, and the running ones of runs.

    Those of the home whose record is damaged, or of another version, have None; a line on stderr says why.
    """
    runs = home() / "runs"
    lasting = [path for path in _folders_of(runs.parent) if path != runs]
    passing = [path for scenario in _folders_of(runs) for path in _folders_of(scenario)]
    for paths, is_lasting in ((lasting, True), (passing, False)):
        for path in paths:
            directory = ClusterDirectory(path, is_lasting=is_lasting)
            record = None
            try:
                record = directory.read_record()
            except RecordError as exc:
                if is_lasting:
                    click.echo(f"rmqlab: {exc}", err=True)
                    yield directory, None
            if record is not None and (is_lasting or _state(directory) != STOPPED):
                yield directory, record


def _folders_of(folder: Path) -> list[Path]:
    """Return the directories in a directory, without links.

    Print a line on stderr for each that this user may not enter. An empty list if `folder` is missing.
    """
    try:
        found = sorted(Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as exc:
        click.echo(f"rmqlab: {folder}: {exc.strerror}: clusters in it are not listed", err=True)
        return []
    denied = [path for path in found if not os.access(path, os.X_OK)]
    for path in denied:
        click.echo(f"rmqlab: {path}: {os.strerror(errno.EACCES)}: not listed if it is a cluster", err=True)
    return [path for path in found if path not in denied]


def describe(directory: ClusterDirectory, record: Record | None) -> dict[str, Any]:
    """Return a member of `ls --json`.

    It has no nodes if the record is None, which means damaged.
    """
    state = _state(directory)
    if state == STOPPED and record is None:
        state = DAMAGED
    nodes = record.nodes() if record is not None else []
    return {
        "name": directory.path.name if directory.is_lasting else str(directory.path),
        "state": state,
        "directory": str(directory.path),
        "namesrv_addr": namesrv_addr(nodes),
        "supervisor_pid": _pid(directory) if state == RUNNING else None,
        "last_active": _last_active(directory),
        "size": _size(directory.path),
        "nodes": [
            {"name": node.name, "kind": str(node.kind), "role": node.role, "address": node.address} for node in nodes
        ],
    }


def _state(directory: ClusterDirectory) -> str:
    """Return the state of a cluster: unknown if its lock is not a readable file."""
    try:
        return RUNNING if directory.is_up() else STOPPED
    except OSError as exc:
        click.echo(
            f"rmqlab: {exc.filename or directory.path}: {exc.strerror}: expected the lock of a supervisor", err=True
        )
        return UNKNOWN


def describe_stopped(directory: ClusterDirectory, record: Record) -> dict[str, Any]:
    """Return the document of `status --json` for a stopped cluster."""
    document = describe(directory, record)
    for node in document["nodes"]:
        node["size"] = _size(directory.data_dir(node["name"]))
    return document


def render_stopped(document: Document) -> RenderableType:
    """Render a stopped cluster: its files, and the command to start it."""
    document = printable_values(document)
    table = _columns("NODE", "ROLE", "STATUS", "ADDRESS", "ON DISK")
    for node in document["nodes"]:
        state = Text("stopped", "dim")
        table.add_row(node["name"], node["role"] or node["kind"], state, node["address"], _bytes(node["size"]))
    option = "" if document["name"] == "default" else f" --name {document['name']}"
    return Group(
        Text.assemble("cluster ", (document["name"], "bold"), " is stopped", _since(document)),
        Text(f"{document['directory']}  {_bytes(document['size'])}", "dim"),
        table,
        "",
        Text(f"  rmqlab up{option} --detach       # start it on its stores, as it was"),
        Text(f"  rmqlab events{option}            # what happened before it ended"),
        Text(f"  rmqlab check{option}             # judge it by journals and stores"),
    )


def _table(clusters: list[dict[str, Any]]) -> UncutTable:
    table = _columns("CLUSTER", "STATUS", "NODES", "NAMESRV_ADDR", "DIRECTORY")
    for cluster in printable_values(clusters):
        state = Text(cluster["state"], _STYLES[cluster["state"]])
        nodes = str(len(cluster["nodes"]) or "?")
        table.add_row(cluster["name"], state, nodes, cluster["namesrv_addr"] or "?", Text(cluster["directory"]))
    return table


def _columns(*names: str) -> UncutTable:
    table = UncutTable()
    for name in names:
        table.add_column(name, is_one_line=name == "STATUS")
    return table


def _since(document: Document) -> str:
    at = document["last_active"]
    return "" if at is None else f" since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}"


def _pid(directory: ClusterDirectory) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(read_regular(directory.path / "supervisor.lock"))
    return None


def _last_active(directory: ClusterDirectory) -> int | None:
    """Return when its journals were last written; None without journals.

    In seconds since 1970.
    """
    with contextlib.suppress(OSError):
        return int(max((path.stat().st_mtime for path in directory.journal_dir.iterdir()), default=0)) or None
    return None


def _size(path: Path) -> int:
    """Return the bytes that a directory uses on disk. Files of a log are sparse."""
    blocks = 0
    for file in path.rglob("*"):
        with contextlib.suppress(OSError):
            blocks += file.lstat().st_blocks
    return blocks * 512


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"
