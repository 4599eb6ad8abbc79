"""Runs with promotions: each judge uses the role that a node had at the time."""

from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.verdict.roles import CONTESTED

A, S = "broker-a", "broker-a-s"


def promoted_run(role: str = "ASYNC_MASTER") -> MadeUpRun:
    """Return a run whose master dies, and whose slave is promoted.

    The master has three messages, two of them replicated.
    """
    run = MadeUpRun()
    run.add("", "cluster_starting", role=role, profile="4.9")
    run.send(1)
    run.send(2)
    run.send(3, at=[A])
    run.end(A)
    run.wait(5)
    run.end(S, "stop", "node_stopped")
    run.ready(S, 0)
    return run


def sampled(run: MadeUpRun, node: str, end: int) -> None:
    run.wait(1)
    run.add(node, "log_sampled", max_offset=end, acknowledged=0)


def test_the_tail_of_the_old_master_is_missing_at_the_new_one_and_nowhere_lost() -> None:
    judgement = promoted_run().judge()
    assert judgement[f"missing {S}"].message_ids == ("ID000003",)
    assert judgement["lost.SEND_OK"].value == 0  # the dead master's disk has it


def test_a_promoted_slave_is_behind_no_longer() -> None:
    run = MadeUpRun()
    sampled(run, S, 400)
    sampled(run, A, 600)
    run.end(A)
    run.ready(S, 0)
    promoted_at = run.now
    sampled(run, S, 800)
    sampled(run, S, 1000)
    judgement = run.judge()
    assert judgement[f"replication_lag {S}"].value == 200
    assert judgement[f"replication_lag_left {S}"].value == 200
    behind = judgement[f"replication_lag_duration {S}"]
    assert not behind.is_at_least
    assert behind.evidence[0].until_millis == promoted_at


def test_a_demoted_master_lags_behind_the_new_one() -> None:
    run = promoted_run()
    run.ready(A, 1)
    sampled(run, A, 100)
    sampled(run, S, 700)
    assert run.judge()[f"replication_lag {A}"].value == 600


def test_replication_is_judged_by_the_slaves_of_the_time() -> None:
    run = promoted_run("SYNC_MASTER")
    run.ready(A, 1)
    run.send(4)
    run.send(5, at=[S])
    assert run.judge()["unreplicated broker-a"].message_ids == ("ID000003", "ID000005")


def test_an_isolation_of_the_master_is_that_of_the_master_of_the_time() -> None:
    run = promoted_run()
    run.ready(A, 1)
    run.add("", "fault_applied", id="f1", fault="isolate", target="broker-a:master")
    assert [one.node for one in run.history().absences if one.how == "isolated"] == [S]


def test_with_two_concurrent_masters_the_serving_one_is_unknown() -> None:
    run = promoted_run()
    run.ready(A)
    run.offset_files = {A: {}, S: {}}
    run.deliver(1, 0)
    run.commit(1)
    run.wait(60)
    run.send(9)
    judgement = run.judge()
    assert judgement[f"offset_file_behind {S}"].missing == CONTESTED
    assert judgement[f"offset_file_behind {A}"].missing == CONTESTED


def test_commits_to_the_new_master_are_not_missed_in_the_file_of_the_old_one() -> None:
    run = promoted_run()
    run.commit(2)
    run.wait(60)
    run.offset_files = {A: {}, S: {"orders@shop": {0: 2}}}
    run.send(9, at=[S])
    judgement = run.judge()
    assert judgement[f"offset_file_behind {A}"].missing == "no commit to this node must have been saved"
    assert judgement[f"offset_file_behind {S}"].value == 0
