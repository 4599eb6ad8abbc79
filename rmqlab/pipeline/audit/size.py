"""The size of a run, which selects how its audit uses Spark. No Spark."""

import enum
from pathlib import Path

from rmqlab.pipeline.stores.commitlogs import NoStoreError, find_logs, log_files, written_end

SMALL_BYTES = 64 * 2**20
"""Bytes below which a run fits into one process, where its audit is faster (see audit_run)."""

MEDIUM_BYTES = 256 * 2**20
"""Bytes below which shuffles cost more than they save: at 90 MB, a quarter of all CPU time."""

SHORT_BYTES = 512 * 2**20
"""Bytes below which Java's optimizing compiler costs more than its code saves: at 90 MB, a third of all CPU time."""


class Scale(enum.Enum):
    """How an audit uses Spark. The results are equal."""

    SMALL = enum.auto()
    """The driver reads the run and holds all tables; each has one partition."""
    MEDIUM = enum.auto()
    """The driver reads the run, and Spark holds what several queries use; each table has one partition."""
    LARGE = enum.auto()
    """Workers read the run, with all of Spark's parallelism, and nothing is in memory."""


def scale_of(byte_count: int) -> Scale:
    """Return the scale of a run of so many bytes."""
    if byte_count < SMALL_BYTES:
        return Scale.SMALL
    return Scale.MEDIUM if byte_count < MEDIUM_BYTES else Scale.LARGE


def bytes_to_read(run: Path) -> int:
    """Return the bytes of a run's journals, and those written to its logs."""
    journals = sum(path.stat().st_size for path in (run / "journal").glob("*.msgpack"))
    try:
        return journals + sum(written_end(path) for log in find_logs(run) for path in log_files(log))
    except NoStoreError:
        return journals
