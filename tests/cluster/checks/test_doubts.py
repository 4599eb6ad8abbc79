"""Findings of a consumer group whose clock disagrees with others'."""

import attrs

from rmqlab.cluster.checks.testing import SOME_DAY, MadeUpRun
from rmqlab.runtime.journals.journalentry import JournalEntry


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


def regrouped_run() -> MadeUpRun:
    """A consumer with a wrong clock was in two groups."""
    run = MadeUpRun()
    for number in range(4):
        run.send(number)
        run.now -= 20_000
        run.deliver(number, number, group=("early", "late")[number // 2])
        run.commit(number + 1, group=("early", "late")[number // 2])
        run.now += 20_000
    return run


def test_a_clock_that_was_moved_concerns_each_group_of_its_consumer() -> None:
    findings = regrouped_run().judge()
    for metric in ("offset_rollbacks early", "offset_rollbacks late", "order.delivered early"):
        assert findings[metric].missing.startswith("the clock of consume-1")


def moved(run: MadeUpRun, node: str, millis: int) -> MadeUpRun:
    """Move the clock of a node, in its entries and in their fields."""
    for index, entry in enumerate(run.entries):
        if entry.node == node and entry.kind != "node_ready":
            began = {"began_at": entry.fields["began_at"] + millis} if "began_at" in entry.fields else {}
            fields = {**entry.fields, **began}
            run.entries[index] = attrs.evolve(entry, at_millis=entry.at_millis + millis, fields=fields)
    return run


def test_the_order_of_sends_is_unknown_if_a_producer_s_clock_is_off() -> None:
    """Two producers send in turn to one queue; the clock of one is 20 s ahead."""
    run = MadeUpRun()
    for number in range(4):
        run.send(number)
        if number % 2:
            run.entries[-1] = attrs.evolve(run.entries[-1], node="produce-2")
    findings = moved(run, "produce-2", 20_000).judge()
    assert findings["order.stored"].value is None
    assert "the clock of produce-2" in findings["order.stored"].missing


def test_lags_and_routes_are_unknown_if_a_clock_they_need_is_off() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "namesrv-2", "broker-a", "broker-a-s"))
    run.entries.insert(0, JournalEntry(SOME_DAY, "", "cluster_starting", {"rate": 1.0}))
    for node in ("broker-a", "broker-a-s"):
        run.add(node, "log_sampled", max_offset=100)
    run.send(1)
    findings = moved(moved(run, "broker-a-s", -20_000), "namesrv-2", -20_000).judge()
    for metric in ("replication_lag broker-a-s", "missing_route namesrv-2", "route_disagreement"):
        assert findings[metric].value is None
        assert "the clock of" in findings[metric].missing
    assert findings["missing_route namesrv-1"].is_known
