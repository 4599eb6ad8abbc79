"""The broker's disk, as the fault rules in force want it."""

import contextlib
from collections.abc import Iterator

import attrs

from rmqlab.runtime.fault_rules import DISK_KINDS, DiskRule, NodeFaults, NodeRules
from rmqlab.store.configfile import on_disk
from rmqlab.store.faults import FaultyDisk


@attrs.define(eq=False)
class DiskFaults:
    """Puts rules in force at one disk. Of several of one kind the worst counts; delays add up."""

    disk: FaultyDisk
    rate: float
    """Seconds of the cluster's clock per real second: a sync waits outside that clock."""
    _rules: tuple[DiskRule, ...] = attrs.field(default=(), init=False)

    def follow(self, rules: NodeRules) -> None:
        """Take the rules. A quota that is there already goes on from what is left of it."""
        if rules.disks == self._rules:
            return
        before, self._rules = self._rules, rules.disks
        by_kind = {kind: [rule for rule in self._rules if rule.kind == kind] for kind in DISK_KINDS}
        disk = self.disk
        disk.read_only = bool(by_kind["read-only"])
        disk.sync_fails = bool(by_kind["failing-sync"])
        disk.shown_percent = max((rule.percent for rule in by_kind["used"]), default=None)
        disk.slow_down(sum(rule.millis for rule in by_kind["slow-sync"]) / 1000 / self.rate)
        if by_kind["full"] != [rule for rule in before if rule.kind == "full"]:
            disk.limit(min((rule.bytes_left for rule in by_kind["full"]), default=None))


@contextlib.contextmanager
def open_faulty_disk(faults: NodeFaults, rate: float) -> Iterator[FaultyDisk]:
    """A disk that fails as the rules want, for the store and for the small files beside it."""
    disk = FaultyDisk()
    follower = DiskFaults(disk, rate).follow
    faults.follow(follower)
    try:
        with on_disk(disk):
            yield disk
    finally:
        faults.unfollow(follower)
