"""The ends of consume queues at a clean stop, to detect lost entries later.

RocketMQ dispatches from the end of the last record in any queue. If the files of one queue were lost meanwhile, its
messages are never consumed, and new ones get their queue offsets again (DefaultMessageStore.start,
recoverTopicQueueTable). The ends are kept in `config/rmqlab.queues`, a name that RocketMQ ignores. A start after a
crash compares the queues with the log instead.
"""

import contextlib
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final, Self

import attrs
import msgspec

from rmqlab.remoting.bodies.topic import TopicConfigSerializeWrapper
from rmqlab.remoting.names import is_system_topic
from rmqlab.store.files.claim import CompletenessClaim
from rmqlab.store.files.configfile import read_config_file
from rmqlab.store.files.disk import Disk
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import LAST_POSITION
from rmqlab.store.queue.queues import Queues, can_have_queues
from rmqlab.store.queue.tornend import is_of_another

logger = logging.getLogger(__name__)

ENDS_FILE: Final = "config/rmqlab.queues"
"""Below the store's root."""
_MOST_BYTES: Final = 256 * 2**20
_LAST_OFFSET: Final = LAST_POSITION // 20


class _Ends(msgspec.Struct):
    """The content of the file."""

    log: int
    """End of the commit log at the stop, in bytes."""
    queues: dict[str, dict[int, int]]
    """The next queue offset, by topic and queue id."""
    records: dict[str, dict[int, int]] = {}
    """Commit log offset after the record of the last entry; missing where it is unknown."""


def save_queue_ends(root: Path, queues: Queues, log_end: int) -> None:
    """Write the ends of all queues at a clean stop.

    If the disk has no room, or the directory of a topic no valid name, there is no file.
    """
    ends = _Ends(log_end, {})
    for queue in queues:
        if queue.max_offset:
            ends.queues.setdefault(queue.topic, {})[queue.queue_id] = queue.max_offset
            if queue.max_physical >= 0 and not queue.is_damaged:
                ends.records.setdefault(queue.topic, {})[queue.queue_id] = queue.max_physical
    path = root / ENDS_FILE
    try:
        queues.disk.write_file(path, msgspec.json.encode(ends))
    except (OSError, ValueError) as exc:
        logger.warning("%s is not written: %s", path, getattr(exc, "strerror", None) or exc)
        with contextlib.suppress(OSError):
            queues.disk.unlink(path)


@attrs.frozen
class MissingEntries:
    """Queues that end before they did at the last clean stop, or with another entry."""

    log_end: int
    """End of the commit log at that stop, in bytes."""
    queues: dict[tuple[str, int], int]
    """Commit log offset after the record of the last entry at that stop, by topic and queue id; -1 if unknown."""

    @classmethod
    def find(cls, root: Path, queues: Queues) -> Self:
        """Compare the queues with the file.

        Call it before entries beyond the log's end are dropped: these are not missing. Topics that are not in
        `topics.json` are left out: RocketMQ may have deleted them.
        """
        ends, known = _read(root / ENDS_FILE, queues.disk), _known_topics(root)
        found = {}
        for topic, of_topic in ends.queues.items():
            if not can_have_queues(topic) or not (known is None or topic in known or is_system_topic(topic)):
                continue
            for queue_id, end in of_topic.items():
                queue, record = queues.table.get((topic, queue_id)), ends.records.get(topic, {}).get(queue_id, -1)
                now = queue.max_offset if queue is not None else 0
                is_other = queue is not None and record not in (-1, queue.max_physical)
                if now < end <= _LAST_OFFSET or (now >= end and is_other):
                    found[topic, queue_id] = record
        return cls(ends.log, found)

    def mark(self, queues: Queues, log: CommitLog, log_end: int, claim: CompletenessClaim) -> None:
        """Mark the queues as damaged, unless RocketMQ has continued the log since.

        Files of another queue are deleted, if the log still has the last record of this one, so that new messages get
        the queue offsets after it. StoreError if the claim cannot be withdrawn.
        """
        for (topic, queue_id), record in self.queues.items() if log_end <= self.log_end else ():
            claim.withdraw()
            queue = queues.open(topic, queue_id)
            queue.is_damaged = True
            if log.min_offset < record <= log_end and is_of_another(queue, log):
                logger.error("%s has entries of another queue: it is deleted", queue.files.directory)
                queue.files.destroy()
                queue.max_physical = -1


def _known_topics(root: Path) -> Collection[str] | None:
    table = read_config_file(root / "config" / "topics.json", TopicConfigSerializeWrapper.decode)
    return None if table is None else table.topic_config_table.keys()


def _read(path: Path, disk: Disk) -> _Ends:
    try:
        return msgspec.json.decode(disk.read_file(path, _MOST_BYTES), type=_Ends)
    except FileNotFoundError:  # a store of RocketMQ, or one that was never stopped
        return _Ends(0, {})
    except OSError as exc:
        why = exc.strerror or str(exc)
    except (ValueError, RecursionError) as exc:
        why = str(exc)
    logger.warning("%s is not used: %s", path, why)
    return _Ends(0, {})
