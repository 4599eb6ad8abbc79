"""Test helpers of the store and its users: a manual clock, files, messages.

Files are small, messages plain.
"""

from pathlib import Path
from typing import Any

import attrs

from rmqlab.remoting.message import PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_KEY, NewMessage, format_properties
from rmqlab.store.config import StoreConfig

SOME_DAY = 1_795_200_000_000  # ms; in November 2026
HOST = ("127.0.0.1", 10911)


@attrs.define
class ManualClock:
    """A clock that tests set; with a step, it advances by that at each call."""

    now: int = SOME_DAY
    step: int = 0

    def __call__(self) -> int:
        self.now += self.step
        return self.now


def small_config(root: Path, **changes: Any) -> StoreConfig:
    """Commit log files of 64 KiB, queue files of 50 entries, index files of 399 keys."""
    settings: dict[str, Any] = {
        "store_path_root_dir": root,
        "mapped_file_size_commit_log": 64 * 1024,
        "mapped_file_size_consume_queue": 50 * 20,
        "max_hash_slot_num": 100,
        "max_index_num": 400,
    }
    return StoreConfig(**settings | changes)


def new_message(
    body: bytes = b"hello",
    topic: str = "orders",
    queue_id: int = 0,
    *,
    tags: str = "",
    keys: str = "",
    unique_key: str = "",
    properties: dict[str, str] | None = None,
    **changes: Any,
) -> NewMessage:
    """A message as a broker hands it to the store."""
    pairs = dict(properties or {})
    pairs |= {PROPERTY_TAGS: tags} if tags else {}
    pairs |= {PROPERTY_KEYS: keys} if keys else {}
    pairs |= {PROPERTY_UNIQ_KEY: unique_key} if unique_key else {}
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=body,
        born_timestamp=SOME_DAY - 5,
        born_host=changes.pop("born_host", ("127.0.0.1", 40000)),
        store_host=changes.pop("store_host", HOST),
        properties=format_properties(pairs),
        **changes,
    )
