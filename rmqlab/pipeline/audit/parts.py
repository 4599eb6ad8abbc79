"""Findings that count rows, with their parts by the brokers that the rows are of."""

from collections.abc import Callable
from typing import Any, Final

import attrs
from pyspark.sql import Row

from rmqlab.pipeline.audit.previews import Groups
from rmqlab.verdict.findings import EVIDENCE_LIMIT, Brokers, Evidence, Finding, listed

BROKERS: Final = """if(max(sent_to) is null, cast(array() as array<string>),
    array_sort(array_union(collect_set(broker), array(max(sent_to))))) brokers"""
"""SQL column of a message's records: their brokers, and the one that acknowledged it, `sent_to`.

Empty without an acknowledgement: any broker may have had the message.
"""


def places(node: str, log_offset: str, stored_at: str, text: str) -> str:
    """Return an SQL column that lists a message's records in words.

    They are ordered by store time, node and commit log offset, as those of the quick checks. The arguments are SQL
    expressions; `text` is added to node and offset, unless it is empty.
    """
    words = f"concat({node}, ' at commit log offset ', {log_offset}{f', {text}' if text else ''})"
    record = f"struct({stored_at} at, {node} node, {log_offset} log_offset, {words} words)"
    return f"transform(array_sort(collect_list({record})), one -> one.words) places"


def evidence_of(what: str) -> Callable[[Row], Evidence]:
    """Return a function that makes evidence of a row: a message with wrong records.

    `what` says what is wrong with them.
    """

    def as_evidence(row: Row) -> Evidence:
        text = f"{row.message_id}: {what}: {listed(row.places)}"
        return Evidence(text=text, at_millis=row.stored_at, message_ids=(row.message_id,))

    return as_evidence


def divided(
    finding: Finding, groups: Groups, order: tuple[str, ...], as_evidence: Callable[[Row], Evidence]
) -> Finding:
    """Return a finding with value, evidence and parts of groups by brokers.

    `order` are the columns that order the evidence. The groups' keys are those of `brokers_of`.
    """
    return attrs.evolve(
        finding,
        value=groups.found,
        evidence=tuple(map(as_evidence, groups.first(order)[:EVIDENCE_LIMIT])),
        parts={
            brokers_of(key): attrs.evolve(finding, value=group.found, evidence=tuple(map(as_evidence, group.first)))
            for key, group in groups.items()
        },
    )


def brokers_of(key: Any) -> Brokers:
    """Return the brokers of a group's key: a name, names, or None."""
    return frozenset(() if key is None else (key,) if isinstance(key, str) else key)
