"""A disk that is slow to sync."""

import threading
from typing import ClassVar

import attrs

from rmqlab.faults.disk.fault import DiskEffect, DiskFault
from rmqlab.faults.specification import option
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.net.worker import block


@attrs.frozen(kw_only=True)
class SlowSync(DiskFault):
    """Each sync is delayed by this time. Several delays add up."""

    kind = "slow-sync"
    example: ClassVar = {"target": "broker-a", "millis": 500}

    millis: float = option("Delay added to each sync.", unit="ms", least=0)

    def effect(self) -> "SyncDelay":
        return SyncDelay(self.millis / 1000 / real_seconds(1))  # a sync waits in a thread, outside the clock


class SyncDelay(DiskEffect):
    """Lets each sync wait so many real seconds, until the fault is healed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._healed = threading.Event()

    def before_sync(self) -> None:
        block(self.seconds, until=self._healed)

    def end(self) -> None:
        self._healed.set()
