"""Files among those of a log or a queue that are named otherwise."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqlab.remoting.message import decode_messages
from rmqlab.store.files.disk import StoreCorrupt
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import new_message

Open = Callable[..., MessageStore]
COUNT = 40
BODIES = [b"%06d" % number for number in range(COUNT)]


def fill(store: MessageStore) -> None:
    for number in range(COUNT):
        store.put(new_message(b"%06d" % number))
        store.put(new_message(b"another queue", queue_id=1))


def pull_all(store: MessageStore) -> list[bytes]:
    """Return the bodies of the first queue."""
    bodies, at = [], 0
    while at < store.max_queue_offset("orders", 0):
        got = store.get_message("orders", 0, at, 32)
        for message in (one for buffer in got.buffers for one in decode_messages(buffer)):
            assert (message.topic, message.queue_id) == ("orders", 0)
            assert at <= message.queue_offset < got.next_begin_offset
            bodies.append(message.body)
        assert got.next_begin_offset > at
        at = got.next_begin_offset
    return bodies


@pytest.mark.parametrize("kind", ["commitlog", "consumequeue/orders/0"])
@pytest.mark.parametrize(
    "name", [f"{7:020}", "7", "0" * 19, f"{0:021}", chr(0x660) * 20, "9" * 20, f"{2**63 + 2**16:020}"]
)
def test_a_file_that_is_named_otherwise_is_ignored(open_store: Open, tmp_path: Path, kind: str, name: str) -> None:
    """RocketMQ takes any number; entries would begin within others."""
    store = open_store()
    fill(store)
    store.close()
    place = tmp_path / "store" / kind
    raw = (place / f"{0:020}").read_bytes()
    (place / name).write_bytes(raw)
    again = open_store()
    assert pull_all(again) == BODIES
    assert again.put(new_message()).queue_offset == COUNT
    again.close()
    assert (place / name).read_bytes() == raw


@pytest.mark.parametrize("kind", ["commitlog", "consumequeue/orders/0"])
def test_a_file_of_another_length_ends_the_start_wherever_it_would_begin(
    open_store: Open, tmp_path: Path, kind: str
) -> None:
    """store-ha#6: files of another size of the log are not ignored one by one."""
    store = open_store()
    fill(store)
    store.close()
    place = tmp_path / "store" / kind
    raw = (place / f"{0:020}").read_bytes()
    (place / f"{len(raw) // 2:020}").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(StoreCorrupt):
        open_store()
