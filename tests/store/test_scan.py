"""Reading a commit log from its files alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqlab.store.config import StoreConfig
from rmqlab.store.scan import LogScan


@pytest.mark.parametrize("copy", ["master", "slave", "master-kill9"])
def test_every_message_of_a_real_store_is_found_at_its_place(
    restore: Callable[[str], StoreConfig], manifest: dict[str, Any], copy: str
) -> None:
    scan = LogScan(restore(copy).store_path_commit_log)
    found = {message.physical_offset: message for message in scan.messages()}
    told = [entry for entry in manifest["messages"] + manifest["bulk_messages"] if entry["physical_offset"] is not None]
    assert len(told) > 2100
    for entry in told:
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


def test_a_torn_tail_ends_the_reading_and_is_said(restore: Callable[[str], StoreConfig]) -> None:
    directory = restore("master").store_path_commit_log
    whole = LogScan(directory)
    *others, cut = whole.messages()
    last = max(directory.iterdir())
    with last.open("r+b") as file:
        file.seek(cut.physical_offset + 20 - int(last.name))
        file.write(bytes(cut.store_size - 20))
    torn = LogScan(directory)
    assert len(list(torn.messages())) == len(others)
    assert torn.end_offset < whole.end_offset
    assert torn.reason.startswith("a torn record")


def test_a_missing_file_in_the_middle_ends_the_reading(restore: Callable[[str], StoreConfig]) -> None:
    directory = restore("master").store_path_commit_log
    last = max(directory.iterdir())
    last.rename(last.with_name(f"{int(last.name) * 2:020d}"))
    scan = LogScan(directory)
    assert sum(1 for _ in scan.messages()) > 0
    assert scan.reason.startswith("a gap")


def test_no_files_are_no_messages(tmp_path: Path) -> None:
    scan = LogScan(tmp_path)
    assert list(scan.messages()) == []
    assert scan.reason == "no files"
