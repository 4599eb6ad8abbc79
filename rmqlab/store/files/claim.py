"""What a store's files say of how complete its queues are on disk.

A start drops damaged entries, and makes them again from the log. Until these are synced, a kill or a power loss must
not leave files that say that the queues are complete: the next start would not look for the missing entries.
"""

import contextlib
import errno
from collections.abc import Iterator

import attrs

from rmqlab.store.files.checkpoint import Checkpoint
from rmqlab.store.files.disk import StoreError
from rmqlab.store.files.lock import AbortFile


@attrs.define(eq=False)
class CompletenessClaim:
    """The checkpoint, and the absence of `abort`.

    Without a claim the checkpoint's time of the queues is 0, and `abort` exists. RocketMQ dispatches the whole log
    again then, and its queues skip known entries. The first flush of all queues claims again.
    """

    checkpoint: Checkpoint
    abort: AbortFile
    is_withdrawn: bool = attrs.field(default=False, init=False)
    read: Checkpoint = attrs.field(init=False)
    """The checkpoint as the last process left it."""

    def __attrs_post_init__(self) -> None:
        self.read = attrs.evolve(self.checkpoint)

    @property
    def was_withdrawn(self) -> bool:
        """True if the last process ended between a withdrawal and a flush.

        Also if it ended before its first flush ever.
        """
        return self.read.logics_msg_timestamp == 0

    def withdraw(self, *, indexed_until: int | None = None) -> None:
        """Withdraw the claim, on disk. Call it before the first entry is dropped.

        StoreError if the disk refuses: nothing may be dropped then.

        `indexed_until`: store time in ms up to which index files are complete, if the index lost some.
        """
        checkpoint = self.checkpoint
        if indexed_until is not None:
            checkpoint.index_msg_timestamp = min(checkpoint.index_msg_timestamp, indexed_until)
        elif self.is_withdrawn:
            return
        checkpoint.logics_msg_timestamp = 0
        with self._named_refusal():
            checkpoint.write()  # first: a start after a clean stop finds more kinds of damage
            self.abort.create()
            self.abort.disk.sync_directory(self.abort.path.parent)
        self.is_withdrawn = True

    def lower(self, stored_at: int) -> None:
        """Claim no more than the log has, on disk. StoreError as `withdraw`.

        `stored_at` is the store time of its last message, in ms.
        """
        before = attrs.evolve(self.checkpoint)
        self.checkpoint.lower(stored_at)
        if self.checkpoint != before:
            with self._named_refusal():
                self.checkpoint.write()

    @contextlib.contextmanager
    def _named_refusal(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            remedy = ": free some space" if exc.errno in {errno.ENOSPC, errno.EDQUOT} else ""
            raise StoreError(
                f"{self.checkpoint.path} and abort cannot be written: {exc.strerror or exc}. The log, queues or the index"
                f" have damage that this start must repair, and the next start must know that{remedy}"
            ) from exc
