"""Stores for tests below tmp_path, closed afterwards, and some of RocketMQ 4.9.4."""

import gzip
import json
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqlab.store.config import StoreConfig
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, small_config

GOLDEN = Path(__file__).parents[1] / "golden" / "store"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(step=1)


@pytest.fixture
def open_store(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., MessageStore]]:
    """Opens the store `tmp_path / name` with small files.

    What a test leaves open is closed at its end.
    """
    opened: list[MessageStore] = []

    def opener(name: str = "store", **arguments: Any) -> MessageStore:
        reserved = {key: arguments.pop(key) for key in ("is_slave", "observer", "disk") if key in arguments}
        config = arguments.pop("config", None) or small_config(tmp_path / name, **arguments)
        store = MessageStore.open(config, now_millis=clock, **reserved)
        opened.append(store)
        return store

    yield opener
    for store in opened:
        store.close()


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Return a directory in memory if possible: thousands of stores are created."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def tmpfs_path(quick_path: Path) -> Path:
    """Return a directory of a tmpfs.

    A hole gets memory when it is read through a mapping. If the file system is full, SIGBUS ends the process.
    """
    path = quick_path / "hole"
    with path.open("w+b") as file:
        file.truncate(mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), mmap.PAGESIZE) as mapped:
            assert not mapped[0]
    if not path.stat().st_blocks:
        pytest.skip("no tmpfs")
    path.unlink()
    return quick_path


@pytest.fixture(scope="session")
def manifest() -> dict[str, Any]:
    """What the recorded stores hold; `bulk_messages` is the list itself."""
    content: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text())
    bulk = gzip.decompress((GOLDEN / content["bulk_messages"]).read_bytes())
    return content | {"bulk_messages": [json.loads(line) for line in bulk.splitlines()]}


@pytest.fixture
def restore(tmp_path: Path, manifest: dict[str, Any]) -> Callable[[str], StoreConfig]:
    """Return a function that unpacks a recorded store and returns its config.

    See golden/README.md.
    """

    def restorer(copy: str) -> StoreConfig:
        root = tmp_path / copy
        for entry in manifest["files"]:
            if entry["copy"] != copy:
                continue
            packed = GOLDEN / entry["path"]
            target = root / Path(entry["path"]).relative_to(copy).with_name(entry["name"])
            target.parent.mkdir(parents=True, exist_ok=True)
            raw = packed.read_bytes()
            target.write_bytes(gzip.decompress(raw) if packed.suffix == ".gz" else raw)
            with target.open("r+b") as file:
                file.truncate(entry["original_size"])
        if (GOLDEN / copy / "abort").exists():
            (root / "abort").touch()
        return golden_config(root)

    return restorer


@pytest.fixture
def new_like_golden(tmp_path: Path) -> StoreConfig:
    """For a new store with the file sizes of the recorded ones."""
    return golden_config(tmp_path / "ours")


def golden_config(root: Path) -> StoreConfig:
    return small_config(
        root,
        mapped_file_size_commit_log=1_048_576,
        mapped_file_size_consume_queue=40_000,
        max_hash_slot_num=1000,
        max_index_num=4000,
    )
