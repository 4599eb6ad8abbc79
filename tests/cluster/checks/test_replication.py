"""Replication lag from samples, and compared with a slow model."""

from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.checks.replication import lag_series
from rmqlab.cluster.checks.testing import SOME_DAY, MadeUpRun
from rmqlab.runtime.journals.journalentry import JournalEntry


def sampled(run: MadeUpRun, master: int | None = None, slave: int | None = None) -> None:
    """One instant, a second after the last."""
    run.wait(1)
    for node, end in (("broker-a", master), ("broker-a-s", slave)):
        if end is not None:
            run.add(node, "log_sampled", max_offset=end, acknowledged=0)


def test_the_maximum_and_the_last_lag_are_reported() -> None:
    run = MadeUpRun()
    sampled(run, 100, 100)
    sampled(run, 900, 200)
    at = run.now - 10
    sampled(run, 1000, 990)
    findings = run.judge()
    assert findings["replication_lag broker-a-s"].value == 700
    assert findings["replication_lag broker-a-s"].evidence[0].at_millis == at
    assert findings["replication_lag_left broker-a-s"].value == 10


def test_a_dead_slave_keeps_its_last_sample_and_falls_behind() -> None:
    run = MadeUpRun()
    sampled(run, 100, 100)
    sampled(run, 5000)
    assert run.judge()["replication_lag broker-a-s"].value == 4900


def test_a_slave_in_step_is_never_behind() -> None:
    run = MadeUpRun()
    for end in range(100, 1000, 100):
        sampled(run, end, end)
    finding = run.judge()["replication_lag broker-a-s"]
    assert (finding.value, finding.evidence) == (0, ())


def test_the_longest_time_behind_ends_with_the_sample_in_which_both_logs_end_alike() -> None:
    run = MadeUpRun()
    for master, slave in ((100, 90), (100, 100), (200, 100), (300, 250), (300, 300)):
        sampled(run, master, slave)
    finding = run.judge()["replication_lag_duration broker-a-s"]
    assert (finding.value, finding.is_at_least, len(finding.evidence)) == (2.04, False, 2)
    run.wait(9)
    sampled(run, 400, 300)
    run.wait(9)
    run.send(1)
    finding = run.judge()["replication_lag_duration broker-a-s"]
    assert (finding.value, finding.is_at_least) == (9.02, True)


def test_samples_that_follow_each_other_closely_are_of_one_instant() -> None:
    entries = [
        JournalEntry(SOME_DAY + at, node, "log_sampled", {"max_offset": end})
        for at, node, end in [(0, "m", 100), (274, "s", 40), (505, "m", 200), (900, "s", 150), (1400, "s", 200)]
    ]
    assert [(lag.at - SOME_DAY, lag.byte_count) for lag in lag_series(entries, "m", "s")] == [(0, 50), (1400, 0)]


def test_without_samples_of_both_nothing_is_known() -> None:
    run = MadeUpRun()
    sampled(run, 100)
    findings = run.judge()
    for metric in ("replication_lag", "replication_lag_left", "replication_lag_duration"):
        assert findings[f"{metric} broker-a-s"].missing == "broker-a-s or its master recorded no sample of its log"


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.integers(0, 1000)), max_size=30))
def test_the_series_is_that_of_replaying_second_by_second(made: list[tuple[int, bool, int]]) -> None:
    made.sort(key=lambda sample: sample[0])
    entries = [
        JournalEntry(SOME_DAY + second * 1000 + is_slave, "s" if is_slave else "m", "log_sampled", {"max_offset": end})
        for second, is_slave, end in made
    ]
    expected = []
    for second in sorted({second for second, _, _ in made}):
        known = {is_slave: end for at, is_slave, end in made if at <= second}
        if len(known) == 2:
            expected.append(max(0, known[False] - known[True]))
    entries.sort(key=lambda entry: entry.at_millis)
    last: dict[tuple[int, bool], int] = {}
    for second, is_slave, end in made:  # two samples of one node in one instant: the later counts in both
        last[second, is_slave] = end
    assert [lag.byte_count for lag in lag_series(entries, "m", "s")] == expected
