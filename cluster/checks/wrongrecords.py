"""Counts messages by what is wrong with some of their records."""

from collections.abc import Callable, Mapping, Sequence

from rmqlab.cluster.checks.copies import Copy, Stores, by_time
from rmqlab.cluster.checks.history import History
from rmqlab.verdict.findings import Brokers, Evidence, Finding, count_of, listed
from rmqlab.verdict.metrics import Metric

WrongRecords = Mapping[str, Sequence[tuple[Copy, str]]]
"""By message id: records, each with the words that follow its node and commit log offset; none if empty."""


def count_wrong(
    metric: Metric,
    what: str,
    found: WrongRecords,
    history: History,
    stores: Stores,
    brokers_of: Callable[[str], Brokers] | None = None,
) -> Finding:
    """Return the number of messages; `what` says in the evidence what is wrong.

    It is a lower bound if a store was not read. `brokers_of` as in `count_of`.
    """

    def as_evidence(message_id: str) -> Evidence:
        records = sorted(found[message_id], key=lambda record: by_time(record[0]))
        where = listed(f"{copy.node} at commit log offset {copy.log_offset}{words}" for copy, words in records)
        return Evidence(
            text=f"{message_id}: {what}: {where}",
            at_millis=records[0][0].stored_at,
            message_ids=(message_id,),
            entries=history.about(message_id),
        )

    ids = list(found)
    return count_of(
        metric.name,
        metric.unit,
        ids,
        as_evidence,
        is_at_least=bool(stores.unread),
        message_ids=ids,
        brokers_of=brokers_of,
    )
