"""What an operator may set about a store: RocketMQ's keys in snake_case, with its defaults."""

import os
from pathlib import Path
from typing import Final

import attrs

from remoting.checks import above, at_least, one_of

QUEUE_ENTRY_SIZE: Final = 20
DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNIT_MILLIS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LARGEST_FILE: Final = 2**31 - 1
"""Bytes: sizes within a file are signed int32, in Java and in the blank at a file's end."""
_ASSUMED_MEMORY = 24 * 2**30  # what RocketMQ takes the machine to have when it cannot tell


def machine_memory() -> int:
    """Bytes of physical memory; decides when a reader counts as far behind (section 6.2)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return _ASSUMED_MEMORY


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """`1s 5s 1m ...` as milliseconds; level 1 is the first."""
    return tuple(int(level[:-1]) * _UNIT_MILLIS[level[-1]] for level in text.split())


def _whole_entries(size: int) -> int:
    """A consume queue file holds whole entries: its size is rounded up to them."""
    return -(-size // QUEUE_ENTRY_SIZE) * QUEUE_ENTRY_SIZE


def _is_mappable(_config: object, field: "attrs.Attribute[int]", size: int) -> None:
    if size > LARGEST_FILE:
        raise ValueError(f"{field.name} = {size}: a file has at most {LARGEST_FILE} bytes")


def _fits_into_a_file(config: "StoreConfig", field: "attrs.Attribute[int]", count: int) -> None:
    size = 40 + 4 * config.max_hash_slot_num + QUEUE_ENTRY_SIZE * count  # an index entry has 20 bytes as well
    if size > LARGEST_FILE:
        raise ValueError(f"{field.name} = {count}: an index file of {size} bytes; a file has at most {LARGEST_FILE}")


def _are_hours(_config: object, field: "attrs.Attribute[str]", text: str) -> None:
    for hour in filter(None, map(str.strip, text.split(";"))):
        if not (hour.isdecimal() and int(hour) < 24):
            raise ValueError(f"{field.name} = {text!r}: {hour!r} is no hour from 00 to 23 (several are separated by ;)")


def _are_delays(_config: object, field: "attrs.Attribute[str]", text: str) -> None:
    for level in text.split():
        if not (level[:-1].isdecimal() and level[-1] in _UNIT_MILLIS):
            raise ValueError(f"{field.name} = {text!r}: {level!r} is no time such as 10s, 5m, 2h or 1d")


def _is_one_directory(_config: object, field: "attrs.Attribute[Path]", path: Path) -> None:
    if "," in str(path):
        raise ValueError(f"{field.name} = {str(path)!r}: a commit log in several directories is not supported")


def _within_limits(percent: int) -> int:
    return min(95, max(10, percent))


@attrs.frozen(kw_only=True)
class StoreConfig:
    """One broker's store. Sizes in bytes, times in ms unless the name says hours."""

    store_path_root_dir: Path = attrs.field(factory=lambda: Path.home() / "store", converter=Path)
    store_path_commit_log: Path = attrs.field(converter=Path, validator=_is_one_directory)

    mapped_file_size_commit_log: int = attrs.field(default=1 << 30, validator=[at_least(4096), _is_mappable])
    mapped_file_size_consume_queue: int = attrs.field(
        default=300_000 * QUEUE_ENTRY_SIZE,
        converter=_whole_entries,
        validator=[at_least(QUEUE_ENTRY_SIZE), _is_mappable],
    )
    max_hash_slot_num: int = attrs.field(default=5_000_000, validator=above(0))
    max_index_num: int = attrs.field(default=20_000_000, validator=[above(1), _fits_into_a_file])
    message_index_enable: bool = True
    message_index_safe: bool = False
    check_crc_on_recover: bool = True

    max_message_size: int = attrs.field(default=4 * 2**20, validator=above(0))
    message_delay_level: str = attrs.field(default=DEFAULT_DELAY_LEVELS, validator=_are_delays)

    flush_disk_type: str = attrs.field(default="ASYNC_FLUSH", validator=one_of(("ASYNC_FLUSH", "SYNC_FLUSH")))
    flush_interval_commit_log: int = attrs.field(default=500, validator=above(0))
    flush_commit_log_least_pages: int = attrs.field(default=4, validator=at_least(0))
    flush_commit_log_thorough_interval: int = attrs.field(default=10_000, validator=at_least(0))
    flush_interval_consume_queue: int = attrs.field(default=1000, validator=above(0))
    flush_consume_queue_least_pages: int = attrs.field(default=2, validator=at_least(0))
    flush_consume_queue_thorough_interval: int = attrs.field(default=60_000, validator=at_least(0))
    sync_flush_timeout: int = attrs.field(default=5000, validator=at_least(0))

    delete_when: str = attrs.field(default="04", validator=_are_hours)  # hours of the day, separated by `;`
    file_reserved_time: int = 72  # hours
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = attrs.field(default=10_000, validator=above(0))
    disk_max_used_space_ratio: int = attrs.field(default=75, converter=_within_limits)
    disk_space_clean_forcibly_ratio: int = 85  # a JVM property in RocketMQ, like the next
    disk_space_warning_level_ratio: int = 90

    access_message_in_memory_max_ratio: int = 40  # percent of total_memory
    total_memory: int = attrs.field(factory=machine_memory, validator=at_least(0))
    """Bytes that the machine is taken to have (ours: RocketMQ asks it). A small one shows the way to the slave."""
    max_transfer_bytes_on_message_in_memory: int = 262_144
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 65_536
    max_transfer_count_on_message_in_disk: int = 8
    max_msgs_num_batch: int = 64  # of one query by key
    offset_check_in_slave: bool = False

    @store_path_commit_log.default
    def _commit_log_below_root(self) -> Path:
        return self.store_path_root_dir / "commitlog"

    @property
    def delay_millis(self) -> tuple[int, ...]:
        return parse_delay_levels(self.message_delay_level)

    @property
    def near_bytes(self) -> int:
        """How far behind the log's end a message still counts as being in memory (section 6.2)."""
        return self.total_memory * self.access_message_in_memory_max_ratio // 100
