"""Unique message ids, which producers put into the property UNIQ_KEY.

Class MessageClientIDSetter. An id is 16 bytes in upper-case hexadecimal: IPv4 address (4), process id (2), salt (4),
milliseconds since the month began (4), counter (2). An IPv6 address takes 16 bytes instead of 4.
"""

import struct
from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_address

import attrs


@attrs.define
class UniqueIdGenerator:
    """Generates the unique ids of one producer.

    The salt distinguishes producers of one process. Java puts the hash of its class loader there.
    """

    ip: str
    pid: int
    now: Callable[[], int]  # wall clock, ms
    salt: int = 0
    _prefix: str = attrs.field(init=False)
    _counter: int = attrs.field(default=0, init=False)
    _month_began: int = attrs.field(default=0, init=False)
    _month_ends: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        salt_and_pid = struct.pack(">HI", self.pid & 0xFFFF, self.salt & 0xFFFFFFFF)
        self._prefix = (ip_address(self.ip).packed + salt_and_pid).hex().upper()

    def next(self) -> str:
        """Return the id of the next message. The counter wraps after 65,536 ids."""
        now = self.now()
        if not self._month_began <= now < self._month_ends:
            self._find_month(now)
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return f"{self._prefix}{(now - self._month_began) & 0xFFFFFFFF:08X}{counter:04X}"

    def _find_month(self, now: int) -> None:
        first = datetime.fromtimestamp(now / 1000).astimezone()
        first = first.replace(day=1, hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        self._month_began = int(first.timestamp() * 1000)
        self._month_ends = int(following.timestamp() * 1000)
