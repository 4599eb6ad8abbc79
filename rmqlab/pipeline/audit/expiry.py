"""Sends whose record a broker may have deleted for its age.

The rules are those of cluster/checks/expiry.py.
"""

import collections
from collections.abc import Sequence

from pyspark.sql import Row

from rmqlab.pipeline.audit.relations import literal
from rmqlab.pipeline.audit.run import Run
from rmqlab.verdict.expiry import are_clocks_right, latest_deleted


def is_expired(run: Run) -> str:
    """Return an SQL expression for rows of `sends`.

    A broker that deleted files has no entry of the queue up to the message, and no record that is older than its send.
    """
    deleting = {one.node for one in run.cluster_events if one.kind == "file_deleted" and one.node in run.stores}
    if not deleting:
        return "false"
    firsts = run.rows(
        "select node, topic, queue, min(offset) first, min(stored_at) stored_at from copies"
        f" where node in ({', '.join(map(literal, sorted(deleting)))}) group by all order by all"
    )
    of_nodes: dict[str, list[Row]] = collections.defaultdict(list)
    for row in firsts:
        of_nodes[row.node].append(row)
    nodes = [f"({_is_deleted(run, node, of_nodes[node])})" for node in sorted(deleting)]
    known = "broker is not null and place_queue is not null and offset is not null"
    return f"{known} and ({' or '.join(nodes)})"


def _is_deleted(run: Run, node: str, firsts: Sequence[Row]) -> str:
    is_right = are_clocks_right(one.fields for one in run.cluster_events if one.kind == "fault_applied")
    latest = latest_deleted(min((row.stored_at for row in firsts), default=None), are_clocks_right=is_right)
    created = "true" if latest is None else f"began_at <= {latest}"
    kept = " or ".join(
        f"(place_topic = {literal(row.topic)} and place_queue = {row.queue} and offset >= {row.first})"
        for row in firsts
    )
    return f"broker = {literal(run.broker_of(node))} and {created} and not ({kept or 'false'})"
