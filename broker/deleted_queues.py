"""Deletes the files of deleted topics' queues in the background."""

import logging
from typing import Final, NoReturn

import trio

from rmqlab.runtime.net.alignedtimer import AlignedTimer
from rmqlab.runtime.net.worker import in_thread
from rmqlab.store.queue.deletedqueues import DeletedQueues

log = logging.getLogger(__name__)

DELETE_QUEUES_PERIOD: Final = 10.0
"""Seconds."""


async def delete_queues_forever(deleted: DeletedQueues, timer: AlignedTimer) -> NoReturn:
    """Delete what the store has set aside, also before its start."""
    while True:
        await delete_queues(deleted)
        await timer.sleep(DELETE_QUEUES_PERIOD)


async def delete_queues(deleted: DeletedQueues) -> None:
    """Delete the queues of all deleted topics, one at a time in a thread.

    Their files are unmapped first: unmapping a deleted file takes as long as deleting it.
    """
    while deleted.close_some():
        await trio.lowlevel.checkpoint()
    try:
        topics = deleted.topics()
        for topic in topics:
            for queue in await in_thread(deleted.disk.list_directory, topic):
                await in_thread(deleted.delete_queue, queue)
            await in_thread(deleted.delete_topic, topic)
    except OSError as exc:
        log.warning("queues of deleted topics are not deleted: %s", exc)
