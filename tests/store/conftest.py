"""Stores for tests: small files, a scripted clock, and the directories a real RocketMQ 4.9.4 wrote."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from store.config import StoreConfig
from store.messagestore import MessageStore

GOLDEN = Path(__file__).parents[1] / "golden" / "store"
MANIFEST: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text())


class Clock:
    """Answers one time after another; the last one again and again."""

    def __init__(self, now: int = 1_795_200_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def small_config(root: Path, **changes: Any) -> StoreConfig:
    settings: dict[str, Any] = {
        "store_path_root_dir": root,
        "mapped_file_size_commit_log": 64 * 1024,
        "mapped_file_size_consume_queue": 50 * 20,
        "max_hash_slot_num": 100,
        "max_index_num": 400,
    }
    return StoreConfig(**settings | changes)


Opener = Callable[..., MessageStore]


@pytest.fixture
def open_store(tmp_path: Path, clock: Clock) -> Iterator[Opener]:
    """Opens stores below tmp_path and closes what a test left open."""
    opened: list[MessageStore] = []

    def opener(
        name: str = "store",
        *,
        is_slave: bool = False,
        on_dispatched: Any = None,
        disk: Any = None,
        now: Any = None,
        **changes: Any,
    ) -> MessageStore:
        config = small_config(tmp_path / name, **changes)
        store = MessageStore.open(
            config, now_millis=now or clock, is_slave=is_slave, on_dispatched=on_dispatched, disk=disk
        )
        opened.append(store)
        return store

    yield opener
    for store in opened:
        store.close()


def restore_golden(name: str, root: Path) -> StoreConfig:
    """Unpack one recorded store (see golden/README.md) and answer the config it was written with."""
    for entry in MANIFEST["files"]:
        if entry["copy"] != name:
            continue
        packed = GOLDEN / entry["path"]
        target = root / Path(entry["path"]).relative_to(name).with_name(entry["name"])
        target.parent.mkdir(parents=True, exist_ok=True)
        raw = gzip.decompress(packed.read_bytes()) if packed.suffix == ".gz" else packed.read_bytes()
        target.write_bytes(raw)
        with target.open("r+b") as file:
            file.truncate(entry["original_size"])
    if (GOLDEN / name / "abort").exists():
        (root / "abort").touch()
    return StoreConfig(
        store_path_root_dir=root,
        mapped_file_size_commit_log=1_048_576,
        mapped_file_size_consume_queue=40_000,
        max_hash_slot_num=1000,
        max_index_num=4000,
    )
