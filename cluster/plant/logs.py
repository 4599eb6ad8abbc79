"""One node's commit log, changed in place at commit log offsets."""

from collections.abc import Sequence
from pathlib import Path

import attrs

from rmqlab.remoting.message import PROPERTY_UNIQ_KEY, StoredMessage, body_crc, encode_message
from rmqlab.store.offline.scan import LogScan


@attrs.frozen
class NodeLog:
    """The commit log of a node in the copy of a run."""

    node: str
    directory: Path

    def records(self) -> list[StoredMessage]:
        """All whole records, in the order of the log."""
        return list(LogScan(self.directory).messages())

    def files(self) -> list[Path]:
        """All files, the oldest first."""
        return sorted(path for path in self.directory.iterdir() if path.name.isdecimal())

    def place(self, offset: int) -> tuple[Path, int]:
        """Return the file that has a commit log offset, and the byte offset in it."""
        path = [path for path in self.files() if int(path.name) <= offset][-1]
        return path, offset - int(path.name)

    def write(self, offset: int, data: bytes) -> None:
        """Overwrite bytes that lie within one file."""
        path, at = self.place(offset)
        overwrite(path, at, data)

    def zero_from(self, offset: int) -> None:
        """Zero everything from a commit log offset on."""
        path, at = self.place(offset)
        overwrite(path, at, bytes(path.stat().st_size - at))
        for later in self.files():
            if later.name > path.name:
                overwrite(later, 0, bytes(later.stat().st_size))


def overwrite(path: Path, at: int, data: bytes) -> None:
    """Replace bytes of a file; its size stays unless they reach beyond it."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def unique_id(record: StoredMessage) -> str:
    """The unique id of a record's message; empty for one without."""
    return record.properties.get(PROPERTY_UNIQ_KEY, "")


def with_body(record: StoredMessage, body: bytes) -> StoredMessage:
    """The same record with another body and the CRC of that."""
    return attrs.evolve(record, body=body, body_crc=body_crc(body))


def with_foreign_id(record: StoredMessage, foreign_id: str) -> StoredMessage:
    """Return another message's record of the same size and place.

    Its unique id and its body differ.
    """
    text = record.properties_text.replace(unique_id(record), foreign_id)
    return with_body(attrs.evolve(record, properties_text=text), record.body[::-1])


def write_record(logs: Sequence[NodeLog], record: StoredMessage) -> None:
    """Write a record at its own commit log offset into several logs."""
    for log in logs:
        log.write(record.physical_offset, encode_message(record))
