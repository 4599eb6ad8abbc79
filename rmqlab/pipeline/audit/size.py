"""The size of a run, which selects the mode of its audit. No Spark."""

from pathlib import Path

from rmqlab.pipeline.commitlogs import NoStoreError, find_logs, log_files, written_end

SMALL_BYTES = 64 * 2**20
"""Bytes below which a run fits into one process, where its audit is faster (see audit_run)."""

SHORT_BYTES = 512 * 2**20
"""Bytes below which Java's optimizing compiler costs more than its code saves: at 90 MB, a third of all CPU time."""


def bytes_to_read(run: Path) -> int:
    """Return the bytes of a run's journals, and those written to its logs."""
    journals = sum(path.stat().st_size for path in (run / "journal").glob("*.msgpack"))
    try:
        return journals + sum(written_end(path) for log in find_logs(run) for path in log_files(log))
    except NoStoreError:
        return journals
