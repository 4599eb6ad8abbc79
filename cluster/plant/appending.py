"""Records appended to logs, with their entries in consume queues and the index."""

from collections.abc import Sequence
from pathlib import Path

import attrs

from rmqlab.cluster.plant.logs import NodeLog, unique_id
from rmqlab.cluster.plant.model import Edit, Nodes, NothingToPlantError
from rmqlab.cluster.plant.queues import QueueEntries, index_size
from rmqlab.cluster.plant.runcopy import RunCopy
from rmqlab.remoting.message import BLANK_SIZE, PROPERTY_KEYS, StoredMessage, encode_message
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.files.disk import Disk
from rmqlab.store.keyindex.indexfile import IndexFile
from rmqlab.store.keyindex.indexing import key_hash


def append_record(
    copy: RunCopy, nodes: Nodes, like: StoredMessage, message: StoredMessage
) -> tuple[tuple[Edit, ...], StoredMessage]:
    """Append a message to the logs of nodes, in the queue of the record `like`.

    It is stored when the last message of the logs was. Return the edits, and the record.
    """
    logs = copy.logs(nodes)
    end, time = _common_end(logs)
    queues = [QueueEntries(copy.store(node), like.topic, like.queue_id) for node in nodes]
    record = attrs.evolve(message, physical_offset=end, queue_offset=queues[0].count(), store_timestamp=time)
    edits: list[Edit] = []
    for log, queue in zip(logs, queues, strict=True):
        edits += _append(copy, log, queue, record, _tags_code(queue, like, time))
    return tuple(edits), record


def _tags_code(queue: QueueEntries, like: StoredMessage, stored_at: int) -> int:
    """Return the tags code of a record with the same tags or delay."""
    _, _, tags_code = queue.entry_of(like)
    return tags_code - like.store_timestamp + stored_at if like.topic == SCHEDULE_TOPIC else tags_code


def _common_end(logs: Sequence[NodeLog]) -> tuple[int, int]:
    """Return where all these logs end, and when their last message was stored."""
    ends = {(records[-1].physical_offset + records[-1].store_size, records[-1].store_timestamp)
            for log in logs if (records := log.records())}  # fmt: skip
    if len(ends) != 1:
        raise NothingToPlantError("the logs do not end at the same offset")
    return ends.pop()


def _append(copy: RunCopy, log: NodeLog, queue: QueueEntries, record: StoredMessage, tags_code: int) -> list[Edit]:
    message_id = unique_id(record)
    path, at = log.place(record.physical_offset)
    data = encode_message(record)
    if at + len(data) + BLANK_SIZE > path.stat().st_size:
        raise NothingToPlantError(f"{path.name} of {log.node} has no room for another record")
    edit = copy.edit(log.node, path, at, f"{message_id} appended")
    log.write(record.physical_offset, data)
    entry_path, entry_at = queue.place(record.queue_offset)
    queue.write(record.queue_offset, record.physical_offset, len(data), tags_code)
    edits = [edit, copy.edit(log.node, entry_path, entry_at, f"entry of {message_id}")]
    index = _put_in_index(copy, log.node, record, message_id)
    return [*edits, copy.edit(log.node, index, None, f"keys of {message_id}")] if index else edits


def _put_in_index(copy: RunCopy, node: str, record: StoredMessage, message_id: str) -> Path | None:
    """Enter the keys of a record; return the index file, None if the node has none."""
    paths = sorted(path for path in (copy.store(node) / "index").glob("*") if path.name.isdecimal())
    if not paths:
        return None
    file = IndexFile.open(paths[-1], *index_size(copy.root / node / "config.toml"), Disk(), create=False)
    keys = [message_id, *record.properties.get(PROPERTY_KEYS, "").split()]
    file.put(
        [(key_hash(f"{record.topic}#{key}".encode()), record.physical_offset, record.store_timestamp) for key in keys]
    )
    file.file.close()
    return paths[-1]
