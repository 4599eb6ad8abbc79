"""The offset file of a broadcasting consumer."""

import json
import pathlib
from typing import TYPE_CHECKING

import pytest

from rmqlab.client.errors import OffsetFileError
from rmqlab.client.instance import open_client
from rmqlab.client.offsets import BrokerOffsets, LocalOffsets
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.fastjson import parse_fastjson

if TYPE_CHECKING:
    from tests.client.conftest import World

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)
OTHER = MessageQueue(topic="orders", broker_name="a", queue_id=1)


async def committed(path: pathlib.Path, **offsets: int) -> LocalOffsets:
    store = LocalOffsets(path)
    for name, offset in offsets.items():
        store.update(QUEUE if name == "queue" else OTHER, offset)
    await store.commit([QUEUE, OTHER])
    return store


async def test_committed_offsets_are_read_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "client" / "group" / "offsets.json"
    await committed(path, queue=5)
    await committed(path, other=7)
    again = LocalOffsets(path)
    assert [await again.committed(queue) for queue in (QUEUE, OTHER)] == [5, 7]
    assert again.peek(QUEUE) is None


async def test_a_file_that_a_java_client_wrote_is_read(tmp_path: pathlib.Path) -> None:
    """LocalFileOffsetStore writes fastjson's pretty form, with tabs."""
    path = tmp_path / "offsets.json"
    path.write_text(
        '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"orders"\n\t\t}:42\n\t}\n}'
    )
    assert await LocalOffsets(path).committed(QUEUE) == 42


async def test_the_previous_state_is_kept_as_a_backup_and_replaces_a_broken_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "offsets.json"
    await committed(path, queue=5)
    await committed(path, queue=6)
    assert parse_fastjson((tmp_path / "offsets.json.bak").read_bytes()) != parse_fastjson(path.read_bytes())
    for broken in (b"", b"{"):
        path.write_bytes(broken)
        assert await LocalOffsets(path).committed(QUEUE) == 5
    path.unlink()
    assert await LocalOffsets(path).committed(QUEUE) == 5


async def test_a_broken_file_without_a_good_backup_is_an_error_that_names_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(json.dumps({"offsetTable": "none"}))
    with pytest.raises(OffsetFileError, match=r"offsets\.json"):
        LocalOffsets(path)


async def test_nothing_is_written_where_nothing_is_new(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "offsets.json"
    store = await committed(path, queue=5)
    path.unlink()
    await store.commit([QUEUE])
    assert not path.exists()


async def test_offsets_that_could_not_be_written_are_written_by_the_next_commit(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "offsets.json"
    store = await committed(path, queue=5)
    in_the_way = tmp_path / "offsets.json.tmp"
    in_the_way.mkdir()
    store.update(QUEUE, 100)
    await store.commit([QUEUE])
    assert await LocalOffsets(path).committed(QUEUE) == 5
    in_the_way.rmdir()
    await store.commit([QUEUE])
    assert await LocalOffsets(path).committed(QUEUE) == 100


async def test_a_commit_that_no_broker_accepts_emits_an_event(world: "World") -> None:
    events: list[tuple[str, dict[str, object]]] = []
    async with open_client(world.config()) as client:
        store = BrokerOffsets(client, "g", lambda kind, **fields: events.append((kind, fields)))
        store.update(QUEUE, 5)
        await store.commit([QUEUE, OTHER])
    ((kind, fields),) = events
    assert (kind, fields["broker_name"]) == ("commit_failed", "a")
    assert fields["error"]
