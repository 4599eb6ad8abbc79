"""Recovery at a start: truncate torn records, dispatch missing ones.

Section 3.5. After a crash, RocketMQ dispatches every record of the files it walks once more, and its queues skip known
entries. Here the queues' entries are compared with the log first: after a kill of the process they are usually
complete, and no record is dispatched again.
"""

import logging
from collections.abc import Callable, Sequence

import attrs

from rmqlab.store.config import StoreConfig
from rmqlab.store.dispatch import INDEX_LAG
from rmqlab.store.files.claim import CompletenessClaim
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.log import recovery
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.queueends import MissingEntries
from rmqlab.store.queue.queues import EnteredOffsets, Queues
from rmqlab.store.queue.tornend import drop_unsure_ends, mark_wrong_ends

logger = logging.getLogger(__name__)


@attrs.frozen
class Restart:
    """Commit log offsets from which records must be dispatched."""

    queues_from: int = 0
    index_from: int = 0
    last_stored_at: int = 0
    """Store time of the last record in ms, if the walk reached it; else 0."""


def restart(
    log: CommitLog,
    queues: Queues,
    claim: CompletenessClaim,
    config: StoreConfig,
    on_progress: Callable[[int], object],
    *,
    crashed: bool,
    indexed: int,
    on_recovered: Callable[[], object] = lambda: None,
) -> Restart:
    """Truncate log and queues to whole records; return where dispatch begins.

    `indexed` is the end of the index before files of it were dropped. `on_recovered` is called after each queue, and
    `on_progress` with the last checked commit log offset. Raises OSError, and StoreError if the claim cannot be
    withdrawn.
    """
    files = log.files.files
    start = _first_file(files, config, claim, crashed=crashed)
    complete_to = files[start].first_offset if crashed and files else None
    queues.recover(claim, complete_to=complete_to, on_recovered=on_recovered)
    if complete_to is not None:
        drop_unsure_ends(queues, log, complete_to)
    is_stopped = not crashed or claim.was_withdrawn  # the last clean stop was followed by no flush of the queues
    missing_entries = MissingEntries.find(config.store_path_root_dir, queues) if is_stopped else None
    if not files:
        _delete_queues(log, queues, claim)
        return Restart()
    walk = recovery.LogWalk(files, start, config.check_crc_on_recover)
    missing = _walk_to_end(walk, queues if crashed else None, on_progress)
    _truncate(log, queues, claim, walk)
    if missing_entries is not None:
        missing_entries.mark(queues, log, walk.end, claim)
    if complete_to is None:
        return _after_clean_stop(log, queues, claim, walk)
    index_from = min(max(indexed, _index_start(log, queues)), complete_to)
    return _after_crash(log, queues, claim, walk, missing, index_from)


def _first_file(files: Sequence[LogFile], config: StoreConfig, claim: CompletenessClaim, *, crashed: bool) -> int:
    """Return the number of the first file of the log that is checked. OSError."""
    if not crashed:
        return recovery.first_file_after_clean_stop(len(files))
    safe = claim.read.safe_timestamp
    if config.message_index_enable and config.message_index_safe:
        safe = min(safe, claim.read.index_msg_timestamp)
    return recovery.first_file_after_crash([recovery.FirstRecord.read(file) for file in files], safe)


def _delete_queues(log: CommitLog, queues: Queues, claim: CompletenessClaim) -> None:
    """Delete the queues of a log without files."""
    if queues.max_physical > 0:
        logger.warning("%s has no files: the consume queues are deleted", log.files.directory)
        claim.withdraw()
    queues.delete_all()


def _truncate(log: CommitLog, queues: Queues, claim: CompletenessClaim, walk: recovery.LogWalk) -> None:
    """Truncate the log, and queues that have entries beyond it, at the end of a walk."""
    known = queues.max_physical
    if known > walk.end:
        before = queues.record_before(walk.end)
        claim.lower(max(0, log.stored_at(before[0])) if before is not None else 0)
    log.files.trim(walk.end)
    if known >= walk.end:
        queues.trim_to_log(walk.end)
    if known > walk.end:
        logger.warning(
            "%s is cut at %d, where no valid record follows; its queues have entries of records up to %d",
            log.files.directory, walk.end, known,
        )  # fmt: skip


def _after_clean_stop(log: CommitLog, queues: Queues, claim: CompletenessClaim, walk: recovery.LogWalk) -> Restart:
    """Return the dispatch of a log whose index is complete, but for damaged queues."""
    index_from = queues.max_physical  # before damaged entries are dropped
    queues_from = queues.dispatch_from(log, walk.end, claim)
    return Restart(queues_from, index_from, _last_stored_at(log, queues) if claim.is_withdrawn else 0)


def _after_crash(
    log: CommitLog,
    queues: Queues,
    claim: CompletenessClaim,
    walk: recovery.LogWalk,
    missing: int | None,
    index_from: int,
) -> Restart:
    """Return the dispatch of a log that was compared with the queues.

    `missing` is the first record that the comparison found without an entry; None if all have one.
    """
    if claim.was_withdrawn:
        mark_wrong_ends(queues, log)
    queues_from = walk.end if missing is None else missing
    if any(queue.is_damaged for queue in queues):  # else the comparison with the log has found all
        queues_from = min(queues_from, queues.dispatch_from(log, walk.end, claim))
    return Restart(queues_from, index_from, max(0, log.stored_at(walk.last_record)))


def _last_stored_at(log: CommitLog, queues: Queues) -> int:
    last = queues.record_before(log.max_offset)
    return max(0, log.stored_at(last[0])) if last is not None else 0


def _walk_to_end(walk: recovery.LogWalk, queues: Queues | None, on_progress: Callable[[int], object]) -> int | None:
    """Find the log's end, and the first record without a queue entry."""
    missing = None
    known = None if queues is None else EnteredOffsets(queues, walk.end)
    for low, high, entered in walk.windows():
        if known is not None and missing is None:
            missing = recovery.first_missing(entered, known.between(low, high))
        on_progress(high)
    return missing


def _index_start(log: CommitLog, queues: Queues) -> int:
    """Return a log offset that the index had reached before the crash.

    See INDEX_LAG in `Dispatcher.step`.
    """
    file = log.files.file_at(max(queues.max_physical - 2 * INDEX_LAG, log.min_offset))
    return file.first_offset if file is not None else 0
