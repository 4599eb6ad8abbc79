"""Files of deleted topics' queues, until they are deleted from the disk.

Deleting the file and the directory of one queue takes some 7 ms on ext4, and a topic may have 32,768 queues. So a
topic's directory is moved beside those of all topics in one call, and its files are deleted later, in a thread. A new
topic of the same name has a directory of its own. RocketMQ ignores the directory of deleted queues.

Source: DefaultMessageStore.cleanUnusedTopic, which a thread of RocketMQ calls.
"""

import collections
import contextlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs

from rmqlab.store.files.disk import Disk
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.queue.consumequeue import ConsumeQueue

logger = logging.getLogger(__name__)

DELETED_QUEUES: Final = "consumequeue.deleted"
"""Name of the directory, below the store's root."""
_CLOSED_AT_ONCE: Final = 100


@attrs.define(eq=False)
class DeletedQueues:
    """The directories of deleted topics, each with a number as its name."""

    directory: Path
    disk: Disk
    _open: collections.deque[LogFile] = attrs.field(factory=collections.deque, init=False)
    """Files that may be mapped."""
    _last: int = attrs.field(default=0, init=False)
    """The number of the last directory; 0 if unknown."""
    _kept: set[Path] = attrs.field(factory=set, init=False)
    """Directories that the disk refused to delete; the next start tries again."""

    def take(self, topic_directory: Path, queues: Iterable[ConsumeQueue]) -> None:
        """Move a topic's directory here; its queues are empty then.

        After an OSError nothing has changed.
        """
        self.disk.make_directory(self.directory)
        if not self._last:  # all topics at once may be many: a directory is listed once
            self._last = max((int(name) for name in self.disk.names_in(self.directory) if name.isdecimal()), default=0)
        self.disk.rename(topic_directory, self.directory / str(self._last + 1))
        self._last += 1
        for queue in queues:
            self._open.extend(files := queue.files.detach_all())
            for file in files:
                file.forget_name()

    def close_some(self) -> bool:
        """Unmap some files. True if others are left."""
        for _ in range(min(len(self._open), _CLOSED_AT_ONCE)):
            self._open.popleft().close()
        return bool(self._open)

    def close(self) -> None:
        """Unmap all files."""
        while self.close_some():
            pass

    def topics(self) -> list[Path]:
        """Return the directories of deleted topics that can be deleted. OSError."""
        return [path for path in self.disk.list_directory(self.directory) if path not in self._kept]

    def delete_queue(self, directory: Path) -> None:
        """Delete a queue's directory, for a thread. Never raises OSError."""
        with contextlib.suppress(OSError):  # the topic's directory stays then
            for path in self.disk.list_directory(directory):
                self.disk.unlink(path)
            self.disk.remove_directory(directory)

    def delete_topic(self, directory: Path) -> None:
        """Delete a topic's directory after those of its queues. Never raises OSError."""
        try:
            self.disk.remove_directory(directory)
        except OSError as exc:
            self._kept.add(directory)
            logger.warning("%s is not deleted: %s; the next start tries again", directory, exc.strerror or exc)
