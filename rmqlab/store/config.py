"""Settings of a store: RocketMQ's keys in snake_case, with its defaults."""

import re
from pathlib import Path
from typing import Final

import attrs

from rmqlab.runtime.config.validators import FIXED, INT32, INT64, above, one_line_texts, one_of, shown, within
from rmqlab.runtime.homedir import home_directory
from rmqlab.store.files.machine import this_machine

QUEUE_ENTRY_SIZE: Final = 20
DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_DELAY = re.compile(r"[0-9]{1,12}[smhd]")
_LONGEST_DELAY: Final = 100 * 366 * 86_400_000
_MOST_LEVELS: Final = 100
_UNIT_MILLIS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LARGEST_FILE: Final = 2**31 - 1
"""Bytes: sizes within a file are signed int32, in Java and in the blank at a file's end."""


def _machine_memory() -> int:
    return this_machine().memory_bytes()


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """`1s 5s 1m ...` as milliseconds; level 1 is the first."""
    return tuple(int(level[:-1]) * _UNIT_MILLIS[level[-1]] for level in text.split())


def _whole_entries(size: int) -> int:
    """A consume queue file holds whole entries: its size is rounded up to them."""
    return -(-size // QUEUE_ENTRY_SIZE) * QUEUE_ENTRY_SIZE


def _fits_into_a_file(config: "StoreConfig", field: "attrs.Attribute[int]", count: int) -> None:
    size = 40 + 4 * config.max_hash_slot_num + QUEUE_ENTRY_SIZE * count  # an index entry has 20 bytes as well
    if size > LARGEST_FILE:
        raise ValueError(f"{field.name} = {count}: an index file of {size} bytes; a file has at most {LARGEST_FILE}")


def _are_hours(_config: object, field: "attrs.Attribute[str]", text: str) -> None:
    for hour in filter(None, map(str.strip, text.split(";"))):
        if not (hour.isdecimal() and len(hour) < 3 and int(hour) < 24):
            raise ValueError(
                f"{field.name} = {shown(text)}: {shown(hour)} is no hour from 00 to 23 (several are separated by ;)"
            )


def _are_delays(_config: object, field: "attrs.Attribute[str]", text: str) -> None:
    levels = text.split()
    for level in levels:
        if not (_DELAY.fullmatch(level) and parse_delay_levels(level)[0] <= _LONGEST_DELAY):
            raise ValueError(f"{field.name} = {shown(text)}: {shown(level)} is no time such as 10s, 5m, 2h or 1d")
    if not 1 <= len(levels) <= _MOST_LEVELS:
        raise ValueError(f"{field.name} = {shown(text)}: expected 1 to {_MOST_LEVELS} times, separated by blanks")


def _is_one_directory(_config: object, field: "attrs.Attribute[Path]", path: Path) -> None:
    if "," in str(path):
        raise ValueError(f"{field.name} = {shown(str(path))}: a commit log in several directories is not supported")


_period = within(1, INT32)
"""Milliseconds between two rounds of a loop: 0 would never sleep."""
_percent = within(0, 100)
_bytes_of_reply = within(0, 64 * 2**20)
"""A 4.9 client reads frames of up to 16 MiB."""


def _within_limits(percent: int) -> int:
    return min(95, max(10, percent))


def _default_root() -> Path:
    """Return `store` in the home directory.

    In the working directory for a user without one.
    """
    return (home_directory() or Path.cwd()) / "store"


@attrs.frozen(kw_only=True, field_transformer=one_line_texts)
class StoreConfig:
    """One broker's store. Sizes in bytes, times in ms unless the name says hours."""

    store_path_root_dir: Path = attrs.field(factory=_default_root, converter=Path, metadata=FIXED)
    store_path_commit_log: Path = attrs.field(converter=Path, validator=_is_one_directory, metadata=FIXED)

    mapped_file_size_commit_log: int = attrs.field(default=1 << 30, validator=within(4096, LARGEST_FILE))
    mapped_file_size_consume_queue: int = attrs.field(
        default=300_000 * QUEUE_ENTRY_SIZE,
        converter=_whole_entries,
        validator=within(QUEUE_ENTRY_SIZE, LARGEST_FILE),
    )
    max_hash_slot_num: int = attrs.field(default=5_000_000, validator=within(1, LARGEST_FILE // 4))
    max_index_num: int = attrs.field(default=20_000_000, validator=[above(1), _fits_into_a_file])
    message_index_enable: bool = True
    message_index_safe: bool = False
    check_crc_on_recover: bool = True

    max_message_size: int = attrs.field(default=4 * 2**20, validator=within(1, INT32))
    message_delay_level: str = attrs.field(default=DEFAULT_DELAY_LEVELS, validator=_are_delays)

    flush_disk_type: str = attrs.field(default="ASYNC_FLUSH", validator=one_of(("ASYNC_FLUSH", "SYNC_FLUSH")))
    flush_interval_commit_log: int = attrs.field(default=500, validator=_period)
    flush_commit_log_least_pages: int = attrs.field(default=4, validator=within(0, INT32))
    flush_commit_log_thorough_interval: int = attrs.field(default=10_000, validator=within(0, INT32))
    flush_interval_consume_queue: int = attrs.field(default=1000, validator=_period)
    flush_consume_queue_least_pages: int = attrs.field(default=2, validator=within(0, INT32))
    flush_consume_queue_thorough_interval: int = attrs.field(default=60_000, validator=within(0, INT32))
    sync_flush_timeout: int = attrs.field(default=5000, validator=within(0, INT32))

    delete_when: str = attrs.field(default="04", validator=_are_hours)  # hours of the day, separated by `;`
    file_reserved_time: int = attrs.field(default=72, validator=within(0, INT32))  # hours
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = attrs.field(default=10_000, validator=_period)
    disk_max_used_space_ratio: int = attrs.field(default=75, converter=_within_limits)
    disk_space_clean_forcibly_ratio: int = attrs.field(
        default=85, validator=_percent
    )  # a JVM property in RocketMQ, like the next
    disk_space_warning_level_ratio: int = attrs.field(default=90, validator=_percent)

    access_message_in_memory_max_ratio: int = attrs.field(default=40, validator=_percent)  # percent of total_memory
    total_memory: int = attrs.field(factory=_machine_memory, validator=within(0, INT64))
    """Assumed physical memory, in bytes (ours: RocketMQ reads the machine's). A small value makes pulls move to the
    slave."""
    max_transfer_bytes_on_message_in_memory: int = attrs.field(default=262_144, validator=_bytes_of_reply)
    max_transfer_count_on_message_in_memory: int = attrs.field(default=32, validator=within(0, INT32))
    max_transfer_bytes_on_message_in_disk: int = attrs.field(default=65_536, validator=_bytes_of_reply)
    max_transfer_count_on_message_in_disk: int = attrs.field(default=8, validator=within(0, INT32))
    max_msgs_num_batch: int = attrs.field(default=64, validator=within(0, 10_000))  # of one query by key
    offset_check_in_slave: bool = False

    @store_path_commit_log.default
    def _commit_log_below_root(self) -> Path:
        return self.store_path_root_dir / "commitlog"

    @property
    def delay_millis(self) -> tuple[int, ...]:
        return parse_delay_levels(self.message_delay_level)

    @property
    def near_bytes(self) -> int:
        """Distance from the log's end within which messages count as being in memory.

        In bytes; section 6.2.
        """
        return self.total_memory * self.access_message_in_memory_max_ratio // 100
