"""Events that peers can cause have a budget; workloads' events have none."""

import pathlib

import pytest

from rmqlab.runtime.journals.journalsurvey import survey_journals
from rmqlab.runtime.journals.journalwriter import JournalWriter
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.event_budget import BURST, RATE, EventBudget


def test_a_kind_that_used_up_its_bytes_gets_new_ones_with_time() -> None:
    budget = EventBudget()
    assert budget.admits("ha_connected", 0)
    budget.spend("ha_connected", BURST)
    assert not budget.admits("ha_connected", 0)
    assert budget.admits("ha_disconnected", 0)
    assert budget.admits("ha_connected", 1000)
    budget.spend("ha_connected", RATE + 1)
    assert not budget.admits("ha_connected", 1000)
    assert not budget.admits("ha_connected", 0)  # a clock that goes back pays nothing


@pytest.mark.parametrize(
    "kind", ["sent", "served", "offset_committed", "log_sampled", "held_pulls_overdue", "transaction_checked"]
)
def test_events_that_no_peer_can_repeat_and_requested_traffic_have_no_limit(kind: str, tmp_path: pathlib.Path) -> None:
    link = ControlLink("broker-a", limit=10, journal=JournalWriter(tmp_path / "broker-a.msgpack"))
    assert link.journal is not None
    text, count = "x" * 4000, 2 * BURST // 4000
    for _ in range(count):
        link.emit(kind, group=text, topic="orders", began_at=0, outcome="refused", max_offset=0)
        link.journal.flush()
    link.journal.close()
    _, (survey,) = survey_journals(tmp_path)
    assert (survey.kinds[kind], survey.breaks) == (count, [])


def test_a_peer_that_repeats_something_cannot_fill_the_disk_and_judges_see_the_gap(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker-a.msgpack"
    link = ControlLink("broker-a", limit=10, journal=JournalWriter(path))
    assert link.journal is not None
    text = "x" * 4000
    for _ in range(2 * BURST // len(text)):
        link.emit("ha_disconnected", slave="10.0.0.1:1", reason=text, ack_offset=-1)
        link.journal.flush()
    link.emit("file_deleted", file="1")
    link.journal.close()
    assert path.stat().st_size < 1.1 * BURST
    _, (survey,) = survey_journals(tmp_path)
    assert survey.kinds["file_deleted"] == 1
    (gap,) = survey.breaks
    assert gap.found - gap.expected + survey.entries == survey.last_seq
