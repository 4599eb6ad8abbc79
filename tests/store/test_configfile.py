"""Files that are replaced as a whole."""

import errno
import json
import os
import pathlib
import threading

import pytest

from rmqlab.store.files import configfile
from rmqlab.store.files.configfile import keep_config_file, keep_unsaved_files, load_config_file, save_config_file
from rmqlab.store.files.disk import Disk, StoreError


def test_the_backup_holds_the_former_content(tmp_path: pathlib.Path) -> None:
    """store-ha#62."""
    path = tmp_path / "config" / "topics.json"
    save_config_file(path, b"1")
    save_config_file(path, b"2")
    assert (path.read_bytes(), path.with_name("topics.json.bak").read_bytes()) == (b"2", b"1")
    assert not path.with_name("topics.json.tmp").exists()


@pytest.mark.parametrize("broken", [None, b"", b"{"])
def test_a_missing_empty_or_broken_file_is_read_from_its_backup(
    tmp_path: pathlib.Path, broken: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """store-ha#62."""
    path = tmp_path / "topics.json"
    save_config_file(path, b"1")
    save_config_file(path, b"2")
    path.unlink()
    if broken is not None:
        path.write_bytes(broken)
    assert load_config_file(path, json.loads) == 1
    assert ("topics.json is not used" in caplog.text) == (broken is not None)


@pytest.mark.parametrize("first", [None, b"", b"{"])
def test_a_broken_backup_keeps_a_broker_from_starting(tmp_path: pathlib.Path, first: bytes | None) -> None:
    """ConfigManager.loadBak. An empty table would be saved over both files."""
    path = tmp_path / "topics.json"
    if first is not None:
        path.write_bytes(first)
    (tmp_path / "topics.json.bak").write_bytes(b"{")
    with pytest.raises(StoreError, match=r"topics\.json\.bak is damaged: .*; if it and topics\.json are deleted"):
        load_config_file(path, json.loads)


@pytest.mark.parametrize("backup", [None, b""])
def test_a_broken_file_without_a_backup_is_an_empty_table(tmp_path: pathlib.Path, backup: bytes | None) -> None:
    """As ConfigManager.load."""
    path = tmp_path / "topics.json"
    path.write_bytes(b"{")
    if backup is not None:
        (tmp_path / "topics.json.bak").write_bytes(backup)
    assert load_config_file(path, json.loads) is None


def test_a_table_that_fails_to_save_is_logged_and_kept(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "config").write_text("a file where the directory should be")
    keep_config_file(tmp_path / "config" / "topics.json", b"1")
    assert "topics.json is not saved" in caplog.text
    keep_config_file(tmp_path / "config" / "topics.json", b"2")
    keep_unsaved_files()
    assert caplog.text.count("topics.json is not saved") == 1
    (tmp_path / "config").unlink()
    keep_unsaved_files()
    assert (tmp_path / "config" / "topics.json").read_bytes() == b"2"
    assert caplog.text.count("topics.json is saved again") == 1


def test_a_retry_does_not_replace_a_newer_table_that_a_thread_saves(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("a file where the directory should be")
    path = tmp_path / "config" / "consumerFilter.json"
    keep_config_file(path, b"old")
    (tmp_path / "config").unlink()
    begun, may_end = threading.Event(), threading.Event()

    def save_slowly(path: pathlib.Path, content: bytes) -> None:
        begun.set()
        may_end.wait(10)
        save_config_file(path, content)

    monkeypatch.setattr(configfile, "save_config_file", save_slowly)
    thread = threading.Thread(target=keep_config_file, args=(path, b"new"))
    thread.start()
    assert begun.wait(10)
    keep_unsaved_files()
    may_end.set()
    thread.join()
    keep_unsaved_files()
    assert path.read_bytes() == b"new"


def test_a_write_that_fails_half_way_leaves_file_and_backup_as_they_were(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """store-ha#62: as on a full disk; nothing half-written stays to take room."""
    path = tmp_path / "topics.json"
    save_config_file(path, b"1")
    save_config_file(path, b"2")

    def write_half(_disk: Disk, path: pathlib.Path, content: bytes) -> None:
        path.write_bytes(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Disk, "write_file", write_half)
    with pytest.raises(OSError, match="No space left"):
        save_config_file(path, b"a longer text")
    monkeypatch.undo()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "topics.json": b"2",
        "topics.json.bak": b"1",
    }
    assert load_config_file(path, json.loads) == 2


def test_without_hard_links_the_backup_is_a_copy(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: pathlib.Path, _target: pathlib.Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(pathlib.Path, "hardlink_to", refuse)
    path = tmp_path / "topics.json"
    for content in (b"1", b"2", b"3"):
        save_config_file(path, content)
    assert (path.read_bytes(), path.with_name("topics.json.bak").read_bytes()) == (b"3", b"2")


def test_a_file_that_the_disk_does_not_let_be_read_is_named_and_its_older_backup_not_used(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "topics.json"
    save_config_file(path, b"1")
    save_config_file(path, b"2")
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError, match=r"topics\.json cannot be read: Is a directory"):
        load_config_file(path, json.loads)


def test_an_endless_table_is_a_named_reason(tmp_path: pathlib.Path) -> None:
    """Its backup is not used: it would be saved over the table."""
    path = tmp_path / "topics.json"
    save_config_file(path, b"1")
    save_config_file(path, b"2")
    os.truncate(path, 2**40)
    with pytest.raises(StoreError, match=r"topics\.json cannot be read: more than \d+ bytes"):
        load_config_file(path, json.loads)
