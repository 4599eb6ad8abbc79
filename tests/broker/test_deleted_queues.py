"""The files of deleted topics' queues are deleted in the background."""

import errno
from pathlib import Path

import pytest
import trio

from rmqlab.broker.deleted_queues import delete_queues
from rmqlab.broker.testing import TalkingBroker
from rmqlab.store.queue.deletedqueues import DELETED_QUEUES, DeletedQueues

QUEUES = 5


@pytest.fixture
def deleted(talk: TalkingBroker) -> DeletedQueues:
    """Those of a broker whose topic T, of five queues, has just been deleted."""
    talk.broker.topics.create_plain("T", QUEUES)
    for queue_id in range(QUEUES):
        talk.send("T", queue_id)
    talk.ask(215, {"topic": "T"})
    return talk.broker.store.queues.deleted


def test_all_files_of_a_deleted_topic_are_deleted(talk: TalkingBroker, deleted: DeletedQueues) -> None:
    root = talk.broker.settings.store.store_path_root_dir
    assert not (root / "consumequeue" / "T").exists()
    assert len(list((root / DELETED_QUEUES).glob("*/*/*"))) == QUEUES
    talk.send("T")
    trio.run(delete_queues, deleted)
    assert list((root / DELETED_QUEUES).iterdir()) == []
    assert len(talk.broker.store.queues.open_files) == 1
    assert talk.broker.store.max_queue_offset("T", 0) == 1
    assert (root / "consumequeue" / "T" / "0").is_dir()


def test_queues_that_the_disk_does_not_delete_are_left_to_the_next_start(
    deleted: DeletedQueues, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, "read-only", str(path))

    with monkeypatch.context() as refusing:
        refusing.setattr(type(deleted.disk), "unlink", lambda _disk, path: refuse(path))
        for _ in range(2):
            trio.run(delete_queues, deleted)
    assert caplog.text.count("is not deleted") == 1
    trio.run(delete_queues, DeletedQueues(deleted.directory, deleted.disk))
    assert list(deleted.directory.iterdir()) == []


def test_a_topic_that_the_disk_does_not_move_is_deleted_at_once(
    talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    store = talk.broker.store
    monkeypatch.setattr(type(store.disk), "rename", refuse)
    talk.send("T")
    store.delete_topic("T")
    assert list(store.topics_queues()) == []
    assert not (store.queues.directory / "T").exists()
