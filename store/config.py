"""What an operator may set about a store: RocketMQ's keys in snake_case, with its defaults."""

import os
from pathlib import Path
from typing import Final

import attrs
from attrs import validators

QUEUE_ENTRY_SIZE: Final = 20
DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNIT_MILLIS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
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


def _within_limits(percent: int) -> int:
    return min(95, max(10, percent))


@attrs.frozen(kw_only=True)
class StoreConfig:
    """One broker's store. Sizes in bytes, times in ms unless the name says hours."""

    store_path_root_dir: Path = attrs.field(factory=lambda: Path.home() / "store", converter=Path)
    store_path_commit_log: Path = attrs.field(converter=Path)

    mapped_file_size_commit_log: int = attrs.field(default=1 << 30, validator=validators.ge(4096))
    mapped_file_size_consume_queue: int = attrs.field(
        default=300_000 * QUEUE_ENTRY_SIZE, converter=_whole_entries, validator=validators.ge(QUEUE_ENTRY_SIZE)
    )
    max_hash_slot_num: int = attrs.field(default=5_000_000, validator=validators.gt(0))
    max_index_num: int = attrs.field(default=20_000_000, validator=validators.gt(1))
    message_index_enable: bool = True
    message_index_safe: bool = False
    check_crc_on_recover: bool = True

    max_message_size: int = attrs.field(default=4 * 2**20, validator=validators.gt(0))
    message_delay_level: str = DEFAULT_DELAY_LEVELS

    flush_disk_type: str = attrs.field(default="ASYNC_FLUSH", validator=validators.in_(("ASYNC_FLUSH", "SYNC_FLUSH")))
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_interval_consume_queue: int = 1000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    sync_flush_timeout: int = 5000

    delete_when: str = "04"  # hours of the day, separated by `;`
    file_reserved_time: int = 72  # hours
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    disk_max_used_space_ratio: int = attrs.field(default=75, converter=_within_limits)
    disk_space_clean_forcibly_ratio: int = 85  # a JVM property in RocketMQ, like the next
    disk_space_warning_level_ratio: int = 90

    access_message_in_memory_max_ratio: int = 40  # percent of total_memory
    total_memory: int = attrs.field(factory=machine_memory)
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
