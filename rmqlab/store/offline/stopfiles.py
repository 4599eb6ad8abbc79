"""Checks the files `abort` and `checkpoint` against the way a broker stopped.

Sections 1.1 and 1.2. A broker creates `abort` when it starts, and deletes it at a clean stop, unless its disk is full
or failing. The checkpoint has the store times of messages that are on disk.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rmqlab.runtime.regularfile import read_regular
from rmqlab.store.files.checkpoint import SIZE, Checkpoint

_TIMES: Final = struct.Struct(">qqq")


def stop_file_warnings(root: Path, *, was_clean: bool, latest: int | None) -> Iterator[str]:
    """Yield a line for each contradiction between these files, the stop and the log.

    `was_clean` is False for a broker that was killed. `latest` is the highest store time of its log's records, in ms;
    None without records.
    """
    has_abort = (root / "abort").exists()
    if was_clean and has_abort:
        yield (
            f"{root.name}/abort exists, and the broker stopped in good order: its next start recovers as after a crash;"
            " a full or failing disk, or records without queue entries, leave it as well"
        )
    if not was_clean and not has_abort:
        yield f"{root.name}/abort is missing, and the broker was killed: its next start does not check its log"
    if was_clean and latest is not None and (fault := _checkpoint_fault(root / "checkpoint")):
        yield f"{root.name}/checkpoint {fault}: a recovery after a crash reads the log from its first file"
    highest = _highest_time(root / "checkpoint")
    if latest is not None and highest > latest:
        yield (
            f"{root.name}/checkpoint has the store time {highest}, and the last record of the log {latest}: a recovery"
            " treats the log as complete, although its end may be missing"
        )


def odd_log_files(root: Path) -> Iterator[str]:
    """Yield the files of log and queues that a broker of 4.9.8 does not load.

    Their names are offsets, and all of a kind have one size (MappedFileQueue.load).
    """
    yield from _odd_files(root, "commitlog", "*", "log file")
    yield from _odd_files(root, "consumequeue", "*/*/*", "queue file")


def _odd_files(root: Path, place: str, pattern: str, what: str) -> Iterator[str]:
    sizes: dict[int, Path] = {}
    for path in sorted((root / place).glob(pattern)):
        if not path.is_file():
            continue
        if not path.name.isdecimal():
            yield (
                f"{root.name}/{path.relative_to(root)} has no name of a {what}: no broker writes it, and 4.9.8 does not"
                " start"
            )
        else:
            sizes.setdefault(path.stat().st_size, path.relative_to(root / place))
    if len(sizes) > 1:
        named = ", ".join(f"{path} has {size} bytes" for size, path in sizes.items())
        yield f"{root.name}/{place}: its files differ in size: {named}: no broker writes them so, and 4.9.8 does not start"


def _checkpoint_fault(path: Path) -> str:
    """Return the fault of a checkpoint; empty for a valid one."""
    try:
        content = read_regular(path, most=SIZE)
    except FileNotFoundError:
        return "is missing"
    except OSError as exc:
        return f"cannot be read: {exc.strerror}"
    if len(content) != SIZE:
        return f"has {len(content)} bytes, expected {SIZE}"
    times = _TIMES.unpack_from(content)
    if any(time < 0 for time in times):
        return "has a negative store time"
    return "" if any(times) else "has no store time"


def _highest_time(path: Path) -> int:
    """Return the highest time of a checkpoint; 0 if it is missing or cannot be read."""
    try:
        read_regular(path, most=SIZE)
    except OSError:
        return 0
    checkpoint = Checkpoint.load(path)
    return max(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp, checkpoint.index_msg_timestamp)
