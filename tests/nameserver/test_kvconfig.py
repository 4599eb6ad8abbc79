"""The KV table and its file."""

import json
import os
import pathlib

import pytest

from rmqlab.nameserver.kvconfig import KvChange, KvConfig, KvFileError, KvLimitError, load_kv_config
from rmqlab.store.files.configfile import save_config_file


def change(kv: KvConfig, namespace: str, key: str, value: str | None = None, *, removes: bool = False) -> None:
    """Make one change and save it."""
    draft = kv.draft()
    draft.make(KvChange(namespace, key, value, removes))
    draft.save()
    kv.adopt(draft)


def test_every_change_is_in_the_file_before_it_is_answered_and_the_former_content_in_the_backup(
    tmp_path: pathlib.Path,
) -> None:
    """remoting#37."""
    path = tmp_path / "deep" / "kvConfig.json"
    kv = KvConfig(path)
    change(kv, "ns", "k", "one")
    assert path.read_text() == '{"configTable":{"ns":{"k":"one"}}}'
    assert not path.with_name("kvConfig.json.bak").exists()
    change(kv, "ns", "k", "two")
    assert json.loads(path.with_name("kvConfig.json.bak").read_text()) == {"configTable": {"ns": {"k": "one"}}}
    change(kv, "ns", "k", removes=True)
    assert path.read_text() == '{"configTable":{"ns":{}}}'
    assert json.loads(path.with_name("kvConfig.json.bak").read_text()) == {"configTable": {"ns": {"k": "two"}}}
    assert not path.with_name("kvConfig.json.tmp").exists()


def test_a_restart_restores_the_table_emptied_namespaces_too(tmp_path: pathlib.Path) -> None:
    """remoting#37."""
    path = tmp_path / "kvConfig.json"
    kv = KvConfig(path)
    change(kv, "ns", "k", "vé/")
    change(kv, "emptied", "k", "v")
    change(kv, "emptied", "k", removes=True)
    assert load_kv_config(path).namespaces == {"ns": {"k": "vé/"}, "emptied": {}}


def test_a_missing_namespace_is_distinguished_from_an_empty_one(tmp_path: pathlib.Path) -> None:
    """remoting#38, #28."""
    kv = KvConfig(tmp_path / "kv.json")
    change(kv, "ns", "k", removes=True)
    assert kv.listing("ns") is None
    change(kv, "ns", "k", "v")
    assert kv.listing("ns") == b'{"table":{"k":"v"}}'
    change(kv, "ns", "k", removes=True)
    assert kv.listing("ns") == b'{"table":{}}'
    assert kv.listing(None) is None


def test_a_null_value_is_kept_in_memory_and_left_out_of_the_file(tmp_path: pathlib.Path) -> None:
    """Section 4.11."""
    kv = KvConfig(tmp_path / "kv.json")
    change(kv, "ns", "k", None)
    assert kv.namespaces == {"ns": {"k": None}}
    assert kv.get("ns", "k") is None
    assert (tmp_path / "kv.json").read_text() == '{"configTable":{"ns":{}}}'


@pytest.mark.parametrize("content", [None, b"", b"\n"])
def test_no_file_or_an_empty_one_is_an_empty_table(tmp_path: pathlib.Path, content: bytes | None) -> None:
    path = tmp_path / "kv.json"
    if content is not None:
        path.write_bytes(content)
        path.with_name("kv.json.bak").write_bytes(content)
    assert load_kv_config(path).namespaces == {}


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b'{"configTable":3}', b'{"configTable":{"\xff":{}}}', b'{"a":' * 100_000, None]
)
def test_the_backup_is_read_where_the_file_is_damaged_or_gone(tmp_path: pathlib.Path, damaged: bytes | None) -> None:
    path = tmp_path / "kv.json"
    save_config_file(path, b'{"configTable":{"ns":{"k":"v"}}}')
    save_config_file(path, b"replaced")
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)
    assert load_kv_config(path).namespaces == {"ns": {"k": "v"}}


def test_a_damaged_file_with_a_damaged_backup_is_an_error_that_names_both(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kv.json").write_text("{")
    (tmp_path / "kv.json.bak").write_text("[]")
    with pytest.raises(KvFileError, match=r"kv\.json: .*kv\.json\.bak: "):
        load_kv_config(tmp_path / "kv.json")


def test_a_file_is_read_as_fastjson_reads_it(tmp_path: pathlib.Path) -> None:
    """People edit it while the nameserver is stopped."""
    path = tmp_path / "kv.json"
    path.write_text("{configTable:{'A':{'k':5,'b':true,}, /* none yet */ 'B':{}}}")
    assert load_kv_config(path).namespaces == {"A": {"k": "5", "b": "true"}, "B": {}}


def test_an_unreadable_file_is_an_error_although_it_has_a_backup(tmp_path: pathlib.Path) -> None:
    """Otherwise the older backup would be saved over it."""
    path = tmp_path / "kv.json"
    save_config_file(path, b'{"configTable":{}}')
    save_config_file(path, b'{"configTable":{"ns":{"k":"v"}}}')
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(KvFileError, match=r"kv\.json: not a regular file$"):
        load_kv_config(path)


def test_the_table_is_printed_on_plain_lines_and_not_without_bound(tmp_path: pathlib.Path) -> None:
    """KVConfigManager.printAllPeriodically."""
    kv = KvConfig(tmp_path / "kvConfig.json", {"ns": {"k": "v", "odd": "a\nb\x1b[2J", "long": "x" * 5000}, "empty": {}})
    lines = list(kv.lines())
    assert lines[1:3] == ["configTable SIZE: 2", "configTable NS: ns Key: k Value: v"]
    assert lines[3] == "configTable NS: ns Key: odd Value: 'a\\nb\\x1b[2J'"
    assert len(lines[4]) < 1100
    kv.namespaces["ns"] = {str(number): "v" for number in range(3000)}
    assert len(list(kv.lines())) < 1010


@pytest.mark.parametrize(("limit", "value"), [("MAX_KEYS", 1), ("MAX_NAME_SIZE", 3), ("MAX_FILE_SIZE", 40)])
def test_a_full_table_rejects_new_entries(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """Issue 12.6."""
    kv = KvConfig(tmp_path / "kv.json")
    change(kv, "ns", "k", "v")
    monkeypatch.setattr(f"rmqlab.nameserver.kvconfig.{limit}", value)
    with pytest.raises(KvLimitError):
        change(kv, "other", "key", "v")
    assert kv.namespaces == load_kv_config(kv.path).namespaces == {"ns": {"k": "v"}}
    change(kv, "ns", "k", "w")


def test_the_size_is_that_of_the_file_and_a_few_bytes_more(tmp_path: pathlib.Path) -> None:
    """Entries end with a comma in the size, also the last ones."""
    kv = KvConfig(tmp_path / "kv.json")
    for key, value in {"k": "v", "ké\n": '"\\/', "gone": "v", "": ""}.items():
        change(kv, "ns", key, value)
        change(kv, "other\x01", key, value)
    change(kv, "ns", "k", "longer")
    change(kv, "ns", "gone", removes=True)
    draft, loaded = kv.draft(), load_kv_config(kv.path).draft()
    assert (loaded.size, loaded.keys) == (draft.size, draft.keys) == ((tmp_path / "kv.json").stat().st_size + 3, 7)
