"""What a broker does when its group gives it another role. No sockets."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rmqlab.broker.dledger.roles import RoleChanges, become_master, become_slave, follow_roles
from rmqlab.broker.scripted import RecordingRegistration
from rmqlab.dledger.elector import RoleChange
from rmqlab.dledger.member import Role
from rmqlab.store.files.disk import StoreError


class FakeBroker:
    """Notes what a change of role does to the parts of a broker."""

    def __init__(self, role: str) -> None:
        self.done: list[str] = []
        self.failures = 0
        """Number of changes of role that fail."""
        self.config = SimpleNamespace(broker_role=role, broker_name="broker-a")
        self.registration = RecordingRegistration(self.config, "127.0.0.1:10912")
        self.settings = SimpleNamespace(dledger=SimpleNamespace(number=2))
        self.sync = SimpleNamespace(forget_master=lambda: self.done.append("forget master"))
        queues = SimpleNamespace(
            end_rebuild=lambda _log: None, recover_counters=lambda: self.done.append("count queues")
        )
        self.store = SimpleNamespace(log=None, queues=queues)

    def take_role(self, role: str, broker_id: int) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreError("delayOffset.json is damaged")
        self.done.append(f"{role} {broker_id}")

    def emit(self, kind: str, **_fields: object) -> None:
        self.done.append(kind)


@pytest.mark.parametrize("role", [Role.FOLLOWER, Role.CANDIDATE])
def test_a_former_leader_forgets_the_master_and_registers_oneway(role: Role) -> None:
    """dledger#52, rmq#7790: it copies metadata after the next periodic registration."""
    broker = FakeBroker("SYNC_MASTER")
    become_slave(cast("Any", broker), RoleChange(3, role))
    assert broker.done == ["SLAVE 2", "member_role_changed", "forget master"]
    assert broker.registration.calls == [(None, True)]


def test_a_leader_recounts_queue_offsets_and_registers_oneway() -> None:
    """dledger#52, #53"""
    broker = FakeBroker("SLAVE")
    become_master(cast("Any", broker), RoleChange(3, Role.LEADER))
    assert broker.done == ["count queues", "SYNC_MASTER 0", "member_role_changed", "forget master"]
    assert broker.registration.calls == [(None, True)]


def test_a_candidate_that_is_slave_already_changes_nothing() -> None:
    """dledger#52"""
    broker = FakeBroker("SLAVE")
    become_slave(cast("Any", broker), RoleChange(3, Role.CANDIDATE))
    assert (broker.done, broker.registration.calls) == ([], [])


class FakeLog:
    """The empty log of a leader."""

    entries = SimpleNamespace(end_index=-1, cut_to=None)
    server = SimpleNamespace(member=SimpleNamespace(is_leader=True))


async def follow(broker: FakeBroker, changes: RoleChanges) -> None:
    """Follow roles until the broker has its first one."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow_roles, cast("Any", broker), cast("Any", FakeLog), changes)
        await changes.is_known.wait()
        nursery.cancel_scope.cancel()


async def test_a_leader_whose_change_fails_becomes_master_at_the_next_try() -> None:
    """Its group has no other master. The election is journaled once."""
    broker, changes = FakeBroker("SLAVE"), RoleChanges()
    broker.failures = 2
    changes.add([RoleChange(3, Role.LEADER)])
    for _ in range(2):
        with pytest.RaisesGroup(StoreError):
            await follow(broker, changes)
    await follow(broker, changes)
    made = ["count queues", "SYNC_MASTER 0", "member_role_changed", "forget master"]
    assert broker.done == ["member_elected", "count queues", "count queues", *made]


async def test_a_leader_waits_for_queues_that_have_entries_behind_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would count queue offsets from these."""
    broker, changes = FakeBroker("SLAVE"), RoleChanges()
    changes.add([RoleChange(3, Role.LEADER)])
    monkeypatch.setattr(FakeLog.entries, "cut_to", 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, broker, changes)
        await wait_all_tasks_blocked()
        assert broker.done == ["member_elected"]
        monkeypatch.undo()
    assert "SYNC_MASTER 0" in broker.done


async def test_a_newer_change_replaces_one_that_failed() -> None:
    broker, changes = FakeBroker("SYNC_MASTER"), RoleChanges()
    changes.add([RoleChange(4, Role.FOLLOWER)])
    changes.retry(RoleChange(3, Role.LEADER))
    await follow(broker, changes)
    assert broker.done == ["SLAVE 2", "member_role_changed", "forget master"]
