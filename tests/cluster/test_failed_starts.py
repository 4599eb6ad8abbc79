"""What a start that fails leaves of the last run, on processes without services."""

import pathlib

import attrs
import pytest
import trio

from rmqlab.cluster.lab import open_cluster
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.runtime.journals.journalreader import read_journals
from tests.cluster.fakes import FAKES


async def test_starts_that_fail_keep_the_evidence_of_the_last_run(place: pathlib.Path) -> None:
    good = ClusterSpec(name="x", slaves=0)
    async with open_cluster(good, directory=place, modules=FAKES):
        pass
    run, record = read_journals(place / "journal"), (place / "cluster.json").read_text()
    for number in range(2):
        with pytest.raises(NodeFailedError, match="refused"):
            async with open_cluster(
                attrs.evolve(good, broker_settings={"refuse": f"no room {number}"}), directory=place, modules=FAKES
            ):
                pass
        assert read_journals(place / "journal") == run
        assert (place / "cluster.json").read_text() == record
        assert {event.node for event in read_journals(place / "journal.failed")} >= {"namesrv-1", "broker-a"}
    async with open_cluster(good, directory=place, modules=FAKES):
        assert read_journals(place / "journal.old") == run
        assert not (place / "journal.failed").exists()


async def test_a_start_that_is_interrupted_keeps_the_evidence_of_the_last_run(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=place, modules=FAKES):
        pass
    run, record = read_journals(place / "journal"), (place / "cluster.json").read_text()
    with trio.CancelScope() as scope:
        async with open_cluster(
            ClusterSpec(name="x", slaves=2), directory=place, modules=FAKES, started=lambda _: scope.cancel()
        ):
            pass
    assert scope.cancelled_caught
    assert read_journals(place / "journal") == run
    assert (place / "cluster.json").read_text() == record
