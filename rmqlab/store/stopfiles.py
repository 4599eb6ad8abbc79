"""Checks the files `abort` and `checkpoint` against the way a broker stopped.

Sections 1.1 and 1.2. A broker creates `abort` when it starts, and deletes it at a clean stop, unless its disk is full
or failing. The checkpoint has the store times of messages that are on disk.
"""

from collections.abc import Iterator
from pathlib import Path

from rmqlab.runtime.regularfile import read_regular
from rmqlab.store.checkpoint import SIZE, Checkpoint


def stop_file_warnings(root: Path, *, was_clean: bool, latest: int | None) -> Iterator[str]:
    """Yield a line for each contradiction between these files, the stop and the log.

    `was_clean` is False for a broker that was killed. `latest` is the highest store time of its log's records, in ms;
    None without records.
    """
    has_abort = (root / "abort").exists()
    if was_clean and has_abort:
        yield (
            f"{root.name}/abort exists, and the broker stopped in good order: its next start recovers as after a crash;"
            " a full or failing disk leaves it as well"
        )
    if not was_clean and not has_abort:
        yield f"{root.name}/abort is missing, and the broker was killed: its next start does not check its log"
    highest = _highest_time(root / "checkpoint")
    if latest is not None and highest > latest:
        yield (
            f"{root.name}/checkpoint has the store time {highest}, and the last record of the log {latest}: a recovery"
            " treats the log as complete, although its end may be missing"
        )


def _highest_time(path: Path) -> int:
    """Return the highest time of a checkpoint; 0 if it is missing or cannot be read."""
    try:
        read_regular(path, most=SIZE)
    except OSError:
        return 0
    checkpoint = Checkpoint.load(path)
    return max(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp, checkpoint.index_msg_timestamp)
