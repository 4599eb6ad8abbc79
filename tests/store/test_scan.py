"""Reading a commit log from its files alone."""

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqlab.remoting.message import StoredMessage
from rmqlab.store.config import StoreConfig
from rmqlab.store.files import fileimage
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.offline.scan import LogScan, next_record


@pytest.mark.parametrize("copy", ["master", "slave", "master-kill9"])
def test_every_message_of_a_real_store_is_found_at_its_place(
    restore: Callable[[str], StoreConfig], manifest: dict[str, Any], copy: str
) -> None:
    scan = LogScan(restore(copy).store_path_commit_log)
    found = {message.physical_offset: message for message in scan.messages()}
    messages = [
        entry for entry in manifest["messages"] + manifest["bulk_messages"] if entry["physical_offset"] is not None
    ]
    assert len(messages) > 2100
    for entry in messages:
        assert found[entry["physical_offset"]].queue_offset == entry["queueOffset"]
    assert all(message.is_intact for message in found.values())


def test_the_slaves_log_holds_what_the_masters_does(restore: Callable[[str], StoreConfig]) -> None:
    """store-ha#45."""
    logs = [
        [(message.physical_offset, message.body) for message in LogScan(restore(copy).store_path_commit_log).messages()]
        for copy in ("master", "slave")
    ]
    assert logs[0] == logs[1]
    assert logs[0]


def overwrite(directory: Path, offset: int, raw: bytes) -> None:
    """Change bytes at a commit log offset."""
    path = max(path for path in directory.iterdir() if int(path.name) <= offset)
    with path.open("r+b") as file:
        file.seek(offset - int(path.name))
        file.write(raw)


def test_a_torn_tail_ends_the_reading_and_is_no_hole(restore: Callable[[str], StoreConfig]) -> None:
    directory = restore("master").store_path_commit_log
    whole = LogScan(directory)
    *others, cut = whole.messages()
    overwrite(directory, cut.physical_offset + 40, bytes(cut.store_size - 40))
    torn = LogScan(directory)
    assert len(list(torn.messages())) == len(others)
    assert (torn.end_offset, torn.holes) == (cut.physical_offset, [])
    assert torn.reason.startswith("a torn record")


def test_a_record_that_was_half_written_when_it_was_read_is_no_hole(
    restore: Callable[[str], StoreConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = restore("master").store_path_commit_log
    whole = LogScan(directory)
    before = [message.physical_offset for message in whole.messages()]
    slow, last = before[-2], whole.end_offset
    path = max(path for path in directory.iterdir() if int(path.name) <= slow)
    written = path.read_bytes()[slow - int(path.name) : last - int(path.name)]
    overwrite(directory, slow + 40, bytes(len(written) - 40))

    def write_on(image: FileImage, at: int, base: int) -> int:
        overwrite(directory, slow, written)
        image.forget()
        return next_record(image, at, base)

    monkeypatch.setattr("rmqlab.store.offline.scan.next_record", write_on)
    scan = LogScan(directory)
    assert [message.physical_offset for message in scan.messages()] == before
    assert scan.holes == []


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda one: (0, bytes(one.store_size)), id="zeros"),
        pytest.param(lambda _: (28, b"\0\0\0\0\0\0\0\1"), id="another place"),
        pytest.param(lambda _: (0, b"\0\0\7\xff"), id="another size"),
        pytest.param(lambda _: (84, b"\x7f\xff\xff\xff"), id="another body length"),
        pytest.param(lambda _: (4, b"\0\0\0\0"), id="no magic number"),
    ],
)
@pytest.mark.parametrize("number", [0, 700, 2000])
def test_records_behind_a_hole_are_found(
    restore: Callable[[str], StoreConfig], damage: Callable[[StoredMessage], tuple[int, bytes]], number: int
) -> None:
    """Issue 14.4: the reading ended at the first record that was none."""
    directory = restore("master").store_path_commit_log
    whole = LogScan(directory)
    messages = list(whole.messages())
    spoilt = messages[number]
    at, raw = damage(spoilt)
    overwrite(directory, spoilt.physical_offset + at, raw)
    scan = LogScan(directory)
    assert list(scan.messages()) == messages[:number] + messages[number + 1 :]
    assert [(hole.offset, hole.size) for hole in scan.holes] == [(spoilt.physical_offset, spoilt.store_size)]
    assert (scan.end_offset, scan.reason) == (whole.end_offset, whole.reason)


def test_no_files_are_no_messages(tmp_path: Path) -> None:
    scan = LogScan(tmp_path)
    assert list(scan.messages()) == []
    assert scan.reason == "no files"


class Unmapped(mmap.mmap):
    """A file with no memory behind it.

    `find` up to the end reads a byte behind it before Python 3.11.5 (gh-105235), which ends the process.
    """

    def find(self, part: Any, start: int = 0, end: int = -1) -> int:
        assert 0 <= end < len(self)
        return super().find(part, start, end)


def test_the_search_for_a_record_ends_before_the_end_of_a_file_without_holes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "0"
    path.write_bytes(bytes(mmap.PAGESIZE))
    monkeypatch.setattr(mmap, "mmap", Unmapped)
    with FileImage.open(path) as image:
        assert isinstance(image.map, Unmapped)
        assert next_record(image, 1, 0) == mmap.PAGESIZE


@pytest.mark.parametrize("step", [1, 3000, 2**23])
def test_a_log_is_read_in_pieces(
    restore: Callable[[str], StoreConfig], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    directory = restore("master").store_path_commit_log
    whole = LogScan(directory)
    messages = list(whole.messages())
    damaged = messages.pop(700)
    overwrite(directory, damaged.physical_offset, bytes(damaged.store_size))
    monkeypatch.setattr(fileimage, "_STEP", step)
    scan = LogScan(directory)
    assert list(scan.messages()) == messages
    assert [(hole.offset, hole.size) for hole in scan.holes] == [(damaged.physical_offset, damaged.store_size)]
