"""How large a run is, and what follows from that for the audit. No Spark."""

from pathlib import Path

from rmqlab.pipeline.commitlogs import NoStoreError, find_logs, log_files, written_end

SMALL_BYTES = 64 * 2**20
"""Below, a run fits into one process, and is judged more quickly there (see audit_run)."""


def bytes_to_read(run: Path) -> int:
    """Of journals, and of what was written to the logs."""
    journals = sum(path.stat().st_size for path in (run / "journal").glob("*.msgpack"))
    try:
        return journals + sum(written_end(path) for log in find_logs(run) for path in log_files(log))
    except NoStoreError:
        return journals
