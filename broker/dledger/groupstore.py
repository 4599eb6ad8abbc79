"""Opens and recovers the store of a member (sections 1.1, 7.4 and 8.5)."""

import functools
import random
from collections.abc import Callable
from pathlib import Path

import trio

from rmqlab.broker.dledger.entrylog import EntryLog, GroupServer, is_record, is_torn
from rmqlab.broker.dledger.putter import GroupPutter
from rmqlab.broker.dledger.settings import DLedgerConfig
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.follower import LAST_POSITION
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Member, load_ballot, save_ballot
from rmqlab.dledger.recovery import BodyChecks
from rmqlab.store.config import StoreConfig
from rmqlab.store.files.checkpoint import Checkpoint
from rmqlab.store.files.claim import CompletenessClaim
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.flush import MARKS_FILE, FlushedMarks
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.log.recovery import FirstRecord, first_file_after_crash
from rmqlab.store.logkind import LogKind
from rmqlab.store.queue.queueends import MissingEntries
from rmqlab.store.queue.queues import Queues
from rmqlab.store.queue.tornend import drop_unsure_ends, mark_wrong_ends
from rmqlab.store.restart import Restart, restart


def log_kind_of(config: DLedgerConfig) -> LogKind:
    """Return the kind of log that a member with these settings has."""
    clock = trio.lowlevel.current_clock()
    return group_log(config.group(), lambda: int(clock.current_time() * 1000), random.randrange)


def group_log(settings: GroupSettings, now: Callable[[], int], random_below: Callable[[int], int]) -> LogKind:
    """Return the kind of log that a member has. `now` is its time in ms."""

    def make_log(config: StoreConfig, disk: Disk) -> CommitLog:
        plain = FileQueue(config.store_path_commit_log, config.mapped_file_size_commit_log, disk)
        plain.load()
        server = _open_server(settings, config, disk, random_below)
        return EntryLog.of(server, plain, now, config.disk_space_clean_forcibly_ratio)

    return LogKind(make_log, recover, GroupPutter)


def _open_server(
    settings: GroupSettings, config: StoreConfig, disk: Disk, random_below: Callable[[int], int]
) -> GroupServer:
    directory = config.store_path_root_dir / f"dledger-{settings.self_id}"
    disk.make_directory(directory)  # a link to a disk that is not mounted is no new member
    checks = BodyChecks(is_record, is_torn, _synced_end(config.store_path_root_dir, disk))
    entries = EntryStore.open(directory, config.mapped_file_size_commit_log, disk=disk, checks=checks)
    member = Member(settings, functools.partial(save_ballot, disk, directory), load_ballot(disk, directory))
    return GroupServer.of(member, entries, random_below)


def _synced_end(root: Path, disk: Disk) -> int:
    """Return the end of the log that was synced. OSError.

    All of it if there is no mark, as of a real DLedger: reading three files of 1 GB takes long.
    """
    if not disk.exists(root / MARKS_FILE):
        return LAST_POSITION
    marks = FlushedMarks.open(root / MARKS_FILE, disk)
    marks.close()
    return marks.log if marks.is_known else LAST_POSITION


def recover(
    log: CommitLog,
    queues: Queues,
    claim: CompletenessClaim,
    config: StoreConfig,
    on_progress: Callable[[int], object],
    *,
    crashed: bool,
    indexed: int,
    on_recovered: Callable[[], object],
) -> Restart:
    """Truncate the queues to the committed entries.

    A plain log without entries is recovered as after a clean stop, and continued (dledger#56).

    A member receives the committed index beyond its checkpoint from the leader, and dispatches those entries again.
    After a crash the queues may lack entries in the middle, so dispatch begins at the last file whose first record is
    certainly in the queues.
    """
    assert isinstance(log, EntryLog)
    if log.is_mixed and not log.files.files:
        found = restart(
            CommitLog(log.plain), queues, claim, config, on_progress,
            crashed=crashed and claim.was_withdrawn, indexed=indexed, on_recovered=on_recovered,
        )  # fmt: skip
        if log.is_mixed:
            log.continue_plain()
        return found
    complete_to = _surely_dispatched(log, claim.read, config) if crashed else None
    queues.recover(claim, complete_to=complete_to, on_recovered=on_recovered)
    if complete_to is not None:
        drop_unsure_ends(queues, log, complete_to)
    is_stopped = not crashed or claim.was_withdrawn
    missing = MissingEntries.find(config.store_path_root_dir, queues) if is_stopped else None
    if not log.all_files or queues.max_physical <= log.min_offset:  # a log that began again: see `LogFollower`
        if queues.max_physical > 0:
            claim.withdraw()
        queues.delete_all()
        return Restart()
    end = log.max_offset
    if queues.max_physical >= end:
        queues.trim_to_log(end)
    on_progress(end)
    if missing is not None:
        missing.mark(queues, log, end, claim)
    if crashed and claim.was_withdrawn:
        mark_wrong_ends(queues, log)
    start = queues.dispatch_from(log, end, claim)
    if complete_to is not None:
        start = min(start, complete_to)
    last = queues.record_before(end)
    return Restart(start, min(start, indexed), max(0, log.stored_at(last[0])) if last is not None else 0)


def _surely_dispatched(log: EntryLog, checkpoint: Checkpoint, config: StoreConfig) -> int:
    files = log.all_files
    if not files:
        return 0
    safe = checkpoint.safe_timestamp
    if config.message_index_enable and config.message_index_safe:
        safe = min(safe, checkpoint.index_msg_timestamp)
    firsts = [FirstRecord.read(file, log.entry_header_size(file)) for file in files]
    return files[first_file_after_crash(firsts, safe)].first_offset
