"""Files that are replaced as a whole."""

import json
import pathlib

import pytest

from store.configfile import keep_config_file, load_config_file, save_config_file


def test_the_backup_holds_the_former_content(tmp_path: pathlib.Path) -> None:
    """store-ha#62."""
    path = tmp_path / "config" / "topics.json"
    save_config_file(path, b"1")
    save_config_file(path, b"2")
    assert (path.read_bytes(), path.with_name("topics.json.bak").read_bytes()) == (b"2", b"1")
    assert not path.with_name("topics.json.tmp").exists()


@pytest.mark.parametrize("broken", [None, b"", b"{"])
def test_a_missing_empty_or_broken_file_is_read_from_its_backup(tmp_path: pathlib.Path, broken: bytes | None) -> None:
    """store-ha#62."""
    path = tmp_path / "topics.json"
    save_config_file(path, b"1")
    save_config_file(path, b"2")
    path.unlink()
    if broken is not None:
        path.write_bytes(broken)
    assert load_config_file(path, json.loads) == 1


def test_where_both_are_broken_one_starts_empty(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "topics.json"
    for name in ("topics.json", "topics.json.bak"):
        (tmp_path / name).write_bytes(b"{")
    assert load_config_file(path, json.loads) is None


def test_a_table_that_cannot_be_saved_is_logged_and_lives_on(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "config").write_text("a file where the directory should be")
    keep_config_file(tmp_path / "config" / "topics.json", b"1")
    assert "topics.json is not saved" in caplog.text
