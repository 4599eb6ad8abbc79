"""The files of a cluster's journal: one per process.

They are `<cluster>/journal/<node>.msgpack`.
`cluster.msgpack` is the supervisor's: there `node` is the node that the event is about, empty for the cluster itself.
"""

import os
from pathlib import Path

SUFFIX = ".msgpack"

SUPERVISOR = "cluster"
"""Name of the supervisor's file."""


def journal_path(directory: Path, node: str) -> Path:
    """Where a process writes, in the journal directory of its cluster."""
    return directory / f"{node}{SUFFIX}"


def journal_files(directory: Path) -> list[Path]:
    """All files of a journal directory, the supervisor's last.

    Pipes and directories are no journals (`odd_journals`).
    """
    names = [name for name, is_file in _journal_names(directory) if is_file]
    return [directory / name for name in sorted(names, key=lambda name: (name == f"{SUPERVISOR}{SUFFIX}", name))]


def odd_journals(directory: Path) -> list[Path]:
    """Return the paths named like a journal that are no regular files, or unreadable."""
    return sorted(directory / name for name, is_file in _journal_names(directory) if not is_file)


def _journal_names(directory: Path) -> list[tuple[str, bool]]:
    """Return each name of a journal, and whether it is a readable file."""
    try:
        with os.scandir(directory) as entries:  # a tail lists them often
            return [(entry.name, _is_file(entry)) for entry in entries if entry.name.endswith(SUFFIX)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file() and os.access(entry.path, os.R_OK)
    except OSError:  # a loop of links
        return False
