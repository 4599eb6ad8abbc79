"""Runs of the audit's benchmark: complete, and violated only as planted."""

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.verdict.judgement import Judgement
from tests.bench.bigrun import BROKERS, LOST, write_run
from tests.bench.bigstore import QUEUES, queue_end

COUNT = 20_011
UNSEEN = {"detection namesrv-1", "route_disagreement", *(f"offset_file_behind {node}" for node in BROKERS)}
"""Metrics of what such a run does not have: an absence, a second nameserver, a broker that saved offsets and went
on."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Judgement:
    place = tmp_path_factory.mktemp("big")
    write_run(place, COUNT)
    return judge_directory(place)


def test_a_generated_run_is_complete(found: Judgement) -> None:
    """With a gap in its journals the benchmark would judge less than real audits."""
    assert found.conditions.gaps == ()
    assert (found.conditions.role, found.conditions.profile) == ("ASYNC_MASTER", "4.9")
    assert {one.metric for one in found if not one.is_known or one.is_at_least} == UNSEEN


def test_only_the_planted_loss_is_found(found: Judgement) -> None:
    assert found.decision.violating == ("lost",)
    assert [
        line for line in found.decision.warnings if "store/checkpoint is missing" not in line
    ] == []  # it writes none
    counted = {"lost": LOST, "lost.SEND_OK": LOST} | {f"missing {node}": LOST for node in BROKERS}
    sizes = {"sent": COUNT + LOST, "sent.SEND_OK": COUNT + LOST}
    assert {one.metric: one.value for one in found if one.value} == counted | sizes


def test_queues_of_a_generated_run_end_where_its_messages_do() -> None:
    for count in (0, 1, QUEUES, COUNT):
        ends = [queue_end(queue_id, count) for queue_id in range(QUEUES)]
        assert sum(ends) == count
        assert ends == sorted(ends, reverse=True)
