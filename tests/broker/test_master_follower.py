"""What a slave does when it hears of its master, and when replication reaches it."""

from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.master_follower import HandbackAtConnect, MasterFollower
from rmqlab.broker.scripted import ScriptedTasks

MASTER, HA = "10.0.0.1:10911", "10.0.0.1:10912"


@attrs.define
class Bench:
    """A slave's parts around a master that is known or not."""

    hands_back: bool
    known: KnownMaster = attrs.field(factory=KnownMaster)
    tasks: ScriptedTasks = attrs.field(factory=ScriptedTasks)
    events: list[tuple[str, str | None]] = attrs.field(factory=list)
    synced_with: list[str | None] = attrs.field(factory=list)
    registrations: int = 0

    async def sync(self) -> None:
        self.synced_with.append(self.known.address)

    def register_soon(self) -> None:
        self.registrations += 1

    def emit(self, kind: str, *, master_address: str | None) -> None:
        self.events.append((kind, master_address))

    @property
    def parts(self) -> Any:
        """In the place of MetadataSync."""
        return SimpleNamespace(hands_back=self.hands_back, sync=self.sync)

    def follower(self) -> MasterFollower:
        return MasterFollower(self.known, self.parts, self.tasks, self.emit)

    def handback(self) -> HandbackAtConnect:
        return HandbackAtConnect(self.known, self.parts, cast("Any", self), self.tasks)


async def test_a_reported_master_is_known_to_all_parts_and_announced_once() -> None:
    bench = Bench(hands_back=False)
    follower = bench.follower()
    for address, ha_address in ((MASTER, HA), (MASTER, HA), (None, None)):
        follower.master_reported(address, ha_address)
    assert bench.events == [("master_known", MASTER), ("master_unknown", None)]
    assert (bench.known.address, bench.known.ha_address) == (None, HA), "an HA address is never cleared"
    assert bench.tasks.started == []


async def test_offsets_are_handed_back_to_a_master_that_is_new() -> None:
    bench = Bench(hands_back=True)
    follower = bench.follower()
    for _ in range(2):
        follower.master_reported(MASTER, HA)
    await bench.tasks.run_all()
    assert bench.synced_with == [MASTER], "the task finds the address"


@pytest.mark.parametrize(("known", "synced", "registrations"), [(MASTER, [MASTER], 0), (None, [], 1)])
async def test_a_connection_hands_offsets_back_or_asks_the_nameservers_for_the_master(
    known: str | None, synced: list[str], registrations: int
) -> None:
    bench = Bench(hands_back=True, known=KnownMaster(known))
    bench.handback().master_connected()
    await bench.tasks.run_all()
    assert (bench.synced_with, bench.registrations) == (synced, registrations)


async def test_without_the_switch_a_connection_changes_nothing() -> None:
    bench = Bench(hands_back=False)
    bench.handback().master_connected()
    assert (bench.tasks.started, bench.registrations) == ([], 0)


def test_an_address_of_the_settings_stays() -> None:
    known = KnownMaster.from_settings(HaSettings(ha_master_address=HA))
    changed = known.ha_address_changed
    known.report_ha_address("10.0.0.9:10912")
    assert (known.ha_address, changed.is_set()) == (HA, False)


def test_only_a_change_is_news() -> None:
    known = KnownMaster()
    first = known.ha_address_changed
    known.report_ha_address(HA)
    assert first.is_set()
    known.report_ha_address(HA)
    assert not known.ha_address_changed.is_set()
