"""The kinds of logs that a message store can have.

A plain log has one record after the other. The log of a DLedger group is made in `rmqlab.dledger.brokerlog`.
"""

from collections.abc import Callable
from typing import Final, Protocol

import attrs

from rmqlab.store.config import StoreConfig
from rmqlab.store.files.claim import CompletenessClaim
from rmqlab.store.files.disk import Disk, StoreError
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.put import Putter
from rmqlab.store.queue.queues import Queues
from rmqlab.store.restart import Restart, restart


class Recover(Protocol):
    """Makes log and queues agree at a start; see `rmqlab.store.restart.restart`."""

    def __call__(
        self,
        log: CommitLog,
        queues: Queues,
        claim: CompletenessClaim,
        config: StoreConfig,
        on_progress: Callable[[int], object],
        *,
        crashed: bool,
        indexed: int,
        on_recovered: Callable[[], object],
    ) -> Restart: ...


@attrs.frozen
class LogKind:
    """How a store opens, recovers and writes its log."""

    make_log: Callable[[StoreConfig, Disk], CommitLog]
    """Returns a log whose files are not loaded yet. StoreError for a store of another kind."""
    recover: Recover
    putter: type[Putter]


def _make_plain(config: StoreConfig, disk: Disk) -> CommitLog:
    root = config.store_path_root_dir
    for name in disk.names_in(root):
        data = root / name / "data"
        if name.startswith("dledger-") and disk.exists(data) and disk.names_in(data):
            raise StoreError(
                f"{data} is not empty: this store is of a DLedger group, and the settings are of a plain broker;"
                " set enableDLegerCommitLog, or use another storePathRootDir"
            )
    return CommitLog(FileQueue(config.store_path_commit_log, config.mapped_file_size_commit_log, disk))


PLAIN_LOG: Final = LogKind(_make_plain, restart, Putter)
