"""Compares a slave's commit log with its master's, byte for byte, and in length.

After a promotion, the log of the former master is compared, too: messages that only it has are lost to clients.

RocketMQ copies bytes, so a difference is permanent. The records that contain differing bytes are named, of either log.
The common range and the end of a log are those of `rmqlab diff` (rmqlab/store/offline/compare.py).
"""

from collections.abc import Iterator, Mapping

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.history import History
from rmqlab.store.offline.compare import Comparison, Record, Side, Verdict
from rmqlab.verdict.catalogue import DIVERGENCE
from rmqlab.verdict.findings import EVIDENCE_LIMIT, NOT_COMPARED, Evidence, Finding, unknown


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.DIVERGENCE`."""
    slaves = (member.name for member in history.members.values() if member.broker_id)
    for name in dict.fromkeys([*slaves, *history.roles.followers]):
        comparison = stores.comparisons.get(name)
        cut = _cut_logs(name, history, stores)
        if cut or comparison is None or comparison.verdict is Verdict.UNKNOWN:
            missing = "; ".join(stores.missing_of([history.members[name].broker], history)) or NOT_COMPARED
            why = cut or (comparison.reason if comparison else missing)
            for metric in DIVERGENCE:
                yield unknown(f"{metric.name} {name}", metric.unit, why)
            continue
        yield _judge_divergence(name, comparison)
        difference = comparison.a.max_offset - comparison.b.max_offset
        yield Finding(metric=f"behind {name}", unit="bytes", value=max(0, difference))
        yield Finding(metric=f"ahead {name}", unit="bytes", value=max(0, -difference))


def _cut_logs(slave: str, history: History, stores: Stores) -> str:
    """Return why the log of a slave or its master is incomplete, else empty."""
    pair = dict.fromkeys((history.roles.followers.get(slave, slave), slave))
    return "; ".join(f"{node}: {stores.incomplete[node]}" for node in pair if node in stores.incomplete)


def _judge_divergence(slave: str, comparison: Comparison) -> Finding:
    records = {owner: _differing(side) for owner, side in (("its master", comparison.a), (slave, comparison.b))}
    pairs = [
        {owner: found[offset] for owner, found in records.items() if offset in found}
        for offset in sorted(set().union(*records.values()))
    ]
    return Finding(
        metric=f"divergence {slave}",
        unit="bytes",
        value=comparison.differing_bytes,
        text=comparison.reason,
        message_ids=tuple(dict.fromkeys(_name(record) for pair in pairs for record in pair.values())),
        evidence=tuple(_evidence(tuple(records), pair) for pair in pairs[:EVIDENCE_LIMIT]),
    )


def _differing(side: Side) -> dict[int, Record]:
    return {record.offset: record for record in side.differing.first} if side.differing else {}


def _name(record: Record) -> str:
    return record.message_id or record.offset_message_id


def _evidence(logs: tuple[str, ...], pair: Mapping[str, Record]) -> Evidence:
    """Return a piece of evidence: the differing records of both logs at one offset."""
    some = next(iter(pair.values()))
    names = [_name(pair[owner]) if owner in pair else "no such record" for owner in logs]
    if len(set(names)) == 1:
        there = f"{' and '.join(logs)} have {names[0]}, with different bytes"
    else:
        there = ", ".join(f"{owner} has {name}" for owner, name in zip(logs, names, strict=True))
    return Evidence(
        text=f"commit log offset {some.offset}: {there}",
        at_millis=some.stored_millis,
        message_ids=tuple(dict.fromkeys(map(_name, pair.values()))),
    )
