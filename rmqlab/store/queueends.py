"""The ends of consume queues at a clean stop, to detect lost entries later.

RocketMQ dispatches from the end of the last record in any queue. If the files of one queue were lost meanwhile, its
messages are never consumed, and new ones get their queue offsets again (DefaultMessageStore.start,
recoverTopicQueueTable). The ends are kept in `config/rmqlab.queues`, a name that RocketMQ ignores. A start after a
crash compares the queues with the log instead.
"""

import contextlib
import logging
from pathlib import Path
from typing import Final

import msgspec

from rmqlab.store.consumequeue import LAST_POSITION
from rmqlab.store.disk import Disk
from rmqlab.store.queues import Queues, can_have_queues

logger = logging.getLogger(__name__)

ENDS_FILE: Final = "config/rmqlab.queues"
"""Below the store's root."""
_MOST_BYTES: Final = 256 * 2**20
_LAST_OFFSET: Final = LAST_POSITION // 20

_Ends = dict[str, dict[int, tuple[int, int]]]
"""By topic and queue id: the next queue offset, and the end of the last record in the commit log."""


def save_queue_ends(root: Path, queues: Queues) -> None:
    """Write the ends of all queues at a clean stop.

    If the disk has no room, there is no file.
    """
    ends: _Ends = {}
    for queue in queues:
        if queue.max_offset:
            ends.setdefault(queue.topic, {})[queue.queue_id] = queue.max_offset, queue.max_physical
    path = root / ENDS_FILE
    try:
        queues.disk.write_file(path, msgspec.json.encode(ends))
    except OSError as exc:
        logger.warning("%s is not written: %s", path, exc.strerror or exc)
        with contextlib.suppress(OSError):
            queues.disk.unlink(path)


def find_missing_entries(root: Path, queues: Queues, log_end: int) -> None:
    """Mark queues as damaged that end before they did at the last clean stop.

    `log_end` is the end of the log's records. Entries of records beyond were dropped with those.
    """
    for topic, ends in _read(root / ENDS_FILE, queues.disk).items():
        for queue_id, (end, physical) in ends.items() if can_have_queues(topic) else ():
            queue = queues.table.get((topic, queue_id))
            known = queue.max_offset if queue is not None else 0
            if known < end <= _LAST_OFFSET and (physical <= log_end or not known):
                queues.open(topic, queue_id).is_damaged = True


def _read(path: Path, disk: Disk) -> _Ends:
    try:
        return msgspec.json.decode(disk.read_file(path, _MOST_BYTES), type=_Ends)
    except FileNotFoundError:  # a store of RocketMQ, or one that was never stopped
        return {}
    except OSError as exc:
        why = exc.strerror or str(exc)
    except (ValueError, RecursionError) as exc:
        why = str(exc)
    logger.warning("%s is not used: %s", path, why)
    return {}
