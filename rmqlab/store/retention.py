"""Decides which commit log files to delete (section 3.7), without file access."""

from collections.abc import Sequence
from typing import Final

from rmqlab.store.config import StoreConfig

FILES_PER_ROUND: Final = 10
ROUNDS_BY_HAND: Final = 20


def is_delete_hour(config: StoreConfig, hour: int) -> bool:
    return hour in {int(when) for when in config.delete_when.split(";") if when.strip()}


def expired_count(
    written_until: Sequence[int],
    config: StoreConfig,
    *,
    now: int,
    hour: int,
    used_percent: int,
    by_hand: bool = False,
    extra_hours: int = 0,
) -> int:
    """Return how many of the oldest files to delete now (store-ha#30).

    `written_until` has the time of the last write of each file but the last, which always stays. An unknown disk usage
    (below 0 per cent) counts as full. Above the limit at which age is ignored, files are deleted only if usage is also
    above `disk_max_used_space_ratio`, or at the configured hour, as in RocketMQ.
    """
    crowded = not 0 <= used_percent <= config.disk_max_used_space_ratio
    if not (by_hand or crowded or is_delete_hour(config, hour)):
        return 0
    forced = config.clean_file_forcibly_enable and used_percent > config.disk_space_clean_forcibly_ratio
    reserved = (config.file_reserved_time + extra_hours) * 3_600_000
    count = 0
    for last_written in written_until[:FILES_PER_ROUND]:
        if not forced and now < last_written + reserved:
            break
        count += 1
    return count
