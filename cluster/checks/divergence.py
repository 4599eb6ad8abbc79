"""Whether a slave's commit log is still its master's, byte for byte.

* `divergence SLAVE`, in bytes: from the first byte that differs to where the shorter of both logs ends; 0 where they are
  equal as far as both go. RocketMQ copies bytes, so any difference is one for good.
* `behind SLAVE`, `ahead SLAVE`, in bytes: by how much the slave's log ends before or beyond its master's.

What both have in common, and where a log ends, is as `rmqlab diff` says (rmqlab/store/compare.py).

Unknown: where one of the stores was not given or is none, and where the logs have no byte in common.
"""

from collections.abc import Iterator

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.history import History
from rmqlab.store.compare import Comparison, Side, Verdict
from rmqlab.verdict.catalogue import DIVERGENCE
from rmqlab.verdict.findings import Evidence, Finding, unknown


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.DIVERGENCE`."""
    for slave in history.members.values():
        if not slave.broker_id:
            continue
        comparison = stores.comparisons.get(slave.name)
        missing = stores.missing_of([slave.broker], history)
        if comparison is None or comparison.verdict is Verdict.UNKNOWN:
            why = (
                comparison.reason if comparison else "; ".join(missing) or "its log and its master's were not compared"
            )
            for metric in DIVERGENCE:
                yield unknown(f"{metric.name} {slave.name}", metric.unit, why)
            continue
        yield _judge_divergence(slave.name, comparison)
        difference = comparison.a.max_offset - comparison.b.max_offset
        yield Finding(metric=f"behind {slave.name}", unit="bytes", value=max(0, difference))
        yield Finding(metric=f"ahead {slave.name}", unit="bytes", value=max(0, -difference))


def _judge_divergence(slave: str, comparison: Comparison) -> Finding:
    metric, first = f"divergence {slave}", comparison.first_difference
    if first is None:
        return Finding(metric=metric, unit="bytes", value=0, says=comparison.reason)
    evidence = [_tell("master", comparison.a), _tell(slave, comparison.b)]
    return Finding(
        metric=metric,
        unit="bytes",
        value=comparison.common_to - first,
        says=comparison.reason,
        evidence=tuple(piece for piece in evidence if piece),
    )


def _tell(who: str, side: Side) -> Evidence | None:
    """The first records of one side that are not the other's."""
    if side.differing is None:
        return None
    records = side.differing.first
    return Evidence(
        says=f"{who}: {side.differing.record_count} records from offset {side.differing.offset} on are its own",
        at_millis=records[0].stored_millis if records else None,
        message_ids=tuple(record.message_id or record.offset_message_id for record in records),
    )
