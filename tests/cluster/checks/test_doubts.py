"""Findings of a consumer group whose clock disagrees with others'."""

from rmqlab.cluster.checks.testing import MadeUpRun


def test_a_clock_that_was_moved_makes_its_group_s_findings_unknown() -> None:
    """Issue 14.8: two members commit in turn; the journal of one is 20 s behind."""
    run = MadeUpRun()
    for number in range(4):
        run.send(number)
        run.now -= 20_000 * (number % 2)
        run.deliver(number, number, node=f"consume-{number % 2}", group="late")
        run.commit(number + 1, node=f"consume-{number % 2}", group="late")
        run.now += 20_000 * (number % 2)
    for offset in (5, 3):
        run.commit(offset, node="consume-9", group="shop")
    findings = run.judge()
    assert findings["clock_disagreement consume-1"].value
    for metric in ("offset_rollbacks late", "rolled_back late", "order.delivered late"):
        assert findings[metric].value is None
        assert "the clock of consume-1" in findings[metric].missing
    assert (findings["offset_rollbacks"].value, findings["offset_rollbacks"].is_at_least) == (1, True)
    assert findings["offset_rollbacks shop"].value == 1
