"""Figures of runs, from made-up ones."""

from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.cluster.scenario.comparison import FIGURES, as_rows, figures_of

A, S = "broker-a", "broker-a-s"


def died() -> MadeUpRun:
    """Ten sends in a second, then the master's death and five refused sends."""
    run = MadeUpRun()
    for number in range(10):
        run.wait(0.09)
        run.send(number)
    run.end(A)
    for number in range(10, 15):
        run.wait(0.19)
        run.send(number, "refused")
    return run


def test_the_figures_of_a_death() -> None:
    run = died()
    figures = figures_of(run.history(), run.judge())
    assert (figures["refused"], figures["lost"], figures["missing"]) == (5, 0, 0)
    assert figures["rate_before"] == 11  # ten messages in 0.91 s
    assert figures["rate_after"] == 0
    assert (figures["processes"], figures["disks"]) == (3, 2)
    assert figures["log_bytes"] is None  # no log was sampled


def test_messages_that_the_promoted_slave_lacks_are_missing_at_the_last_master() -> None:
    run = died()
    run.logs[S] = run.logs[S][:-3]
    run.ready(S, 0)
    run.send(20, at=[S])
    figures = figures_of(run.history(), run.judge())
    assert (figures["missing"], figures["lost"]) == (3, 0)


def test_the_bytes_of_all_logs_are_counted_per_stored_message() -> None:
    run = died()
    run.add(A, "log_sampled", max_offset=2000)
    run.add(S, "log_sampled", max_offset=1000)
    assert figures_of(run.history(), run.judge())["log_bytes"] == 300


def test_bytes_on_the_network_are_those_of_all_processes_per_stored_message() -> None:
    run = died()
    run.add(A, "log_sampled", max_offset=0, replicated=3000, exchanged=500)
    run.add(A, "log_sampled", max_offset=0, replicated=4000, exchanged=1000)
    run.add(S, "log_sampled", max_offset=0, replicated=500, exchanged=100)
    run.add(A, "log_sampled", max_offset=0, replicated=10, exchanged=20)  # of its next process
    figures = figures_of(run.history(), run.judge())
    assert (figures["replicated"], figures["exchanged"], figures["network"]) == (451, 112, 563)


def test_without_samples_the_bytes_on_the_network_are_unknown() -> None:
    figures = figures_of(died().history(), died().judge())
    assert (figures["replicated"], figures["exchanged"], figures["network"]) == (None, None, None)


def test_without_a_death_there_is_no_rate_after_it() -> None:
    run = MadeUpRun()
    run.send(1)
    figures = figures_of(run.history(), run.judge())
    assert (figures["rate_before"], figures["rate_after"]) == (None, None)


def test_a_store_that_was_not_read_leaves_its_figures_unknown() -> None:
    run = died()
    run.unread = {A, S}
    figures = figures_of(run.history(), run.judge())
    assert (figures["missing"], figures["lost"]) == (None, None)


def test_rows_have_a_text_for_each_run() -> None:
    known = dict.fromkeys((figure.name for figure in FIGURES), 1234)
    rows = as_rows([known, {**known, "lost": None, "rate_after": 0.5}])
    assert ("acknowledged, on no disk, messages", ["1,234", "unknown"]) in rows
    assert ("stored after the failure, messages/s", ["1,234", "0.5"]) in rows
