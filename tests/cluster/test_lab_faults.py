"""Faults of whole clusters: in force at once, kept across restarts, healed."""

import pathlib

import pytest

from rmqlab.cluster.lab import open_cluster
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.faults import AnswerRequest, ClockStep, FaultError, ForgedHaReport, Latency
from tests.cluster.fakes import FAKES, LONG


async def test_faults_apply_at_once_outlive_restarts_and_are_healed(place: pathlib.Path) -> None:
    async def links(target: str) -> int:
        snapshot = await cluster.snapshot(target, LONG)
        assert snapshot is not None
        return len(snapshot["rules"].get("links", ()))

    async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
        alone = await cluster.isolate("broker-a:master")
        slow = await cluster.fault(Latency(src="namesrv-1", dst="broker-a-s", millis=5))
        assert [alone.id, slow.id] == ["f1", "f2"]
        assert await links("broker-a-s") == 3
        assert [fault["id"] for fault in (await cluster.status())["faults"]] == ["f1", "f2"]
        await cluster.restart("broker-a-s")
        assert await links("broker-a-s") == 3
        await cluster.heal(alone)
        assert await links("broker-a-s") == 1
        with pytest.raises(FaultError, match="in force: f2"):
            await cluster.heal("f1")
        assert [fault.id for fault in await cluster.heal_all()] == ["f2"]
        assert await links("broker-a-s") == 0
    events = [(event.kind, event.fields["id"]) for event in cluster.events if event.kind.startswith("fault_")]
    assert events == [("fault_applied", "f1"), ("fault_applied", "f2"), ("fault_healed", "f1"), ("fault_healed", "f2")]


async def test_a_paused_node_applies_its_faults_when_it_resumes(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=place, modules=FAKES) as cluster:
        await cluster.pause("broker-a")
        await cluster.fault(ClockStep(target="broker-a", millis=5))
        await cluster.resume("broker-a")

        def is_applied(_document: object) -> bool:
            return cluster.supervisor.processes.links["broker-a"].rules == cluster.supervisor.faults.rules_for(
                "broker-a"
            )

        await cluster.wait_until(is_applied)


async def test_an_executed_node_starts_with_its_faults(place: pathlib.Path) -> None:
    spec = ClusterSpec(name="x", slaves=0, single_address=True)
    async with open_cluster(spec, directory=place, modules=FAKES, spawn_method="exec") as cluster:
        await cluster.kill("broker-a")
        await cluster.fault(AnswerRequest(target="broker-a", code="310", times=2))
        await cluster.isolate("namesrv-1")
        await cluster.start("broker-a")
        assert cluster.supervisor.processes.links["broker-a"].rules == cluster.supervisor.faults.rules_for("broker-a")
        snapshot = await cluster.snapshot("broker-a", LONG)
        assert snapshot is not None
        assert [rule["fault"]["code"] for rule in snapshot["rules"]["own"]] == ["310"]
        assert snapshot["rules"]["links"]


async def test_a_forged_report_that_reaches_no_ha_port_is_no_fault(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=place, modules=FAKES) as cluster:
        with pytest.raises(NodeFailedError, match="the HA port cannot be reached"):
            await cluster.fault(ForgedHaReport(target="broker-a"))
        assert cluster.faults == []
