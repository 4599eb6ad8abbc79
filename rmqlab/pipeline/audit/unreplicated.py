"""Messages with SEND_OK from a SYNC_MASTER that none of its slaves has."""

import itertools
from collections.abc import Mapping, Sequence

from rmqlab.pipeline.audit.relations import literal
from rmqlab.pipeline.audit.run import Run
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.rules import SYNC_MASTER


def conditions(run: Run) -> Mapping[str, str]:
    """Return an expression for each `unreplicated BROKER`.

    Returns an empty mapping in a cluster of ASYNC_MASTERs. Does not count a message that a slave may have lost when
    records were removed from it after the send.
    """
    if run.conditions.role not in ("", SYNC_MASTER):
        return {}
    over_time = {broker: run.roles.slaves_over_time(broker) for broker in sorted(run.roles.brokers)}
    return {
        f"unreplicated {broker}": _condition(run, broker, changes)
        for broker, changes in over_time.items()
        if any(slaves for _, slaves in changes)
    }


def _condition(run: Run, broker: str, changes: Sequence[tuple[int, list[str]]]) -> str:
    """Return an expression for messages of which an acknowledgement is not replicated.

    The outcome of a message is SEND_OK if that of any of its sends is.
    """
    first, each = (_is_unreplicated(run, broker, changes, send) for send in ("send", "one"))
    return f"send.outcome = 'SEND_OK' and if(sends = 1, {first}, exists(acknowledgements, one -> {each}))"


def _is_unreplicated(run: Run, broker: str, changes: Sequence[tuple[int, list[str]]], send: str) -> str:
    ends = [at for at, _ in changes[1:]]
    absent = [
        f"{send}.ended_at >= {at} and {f'{send}.ended_at < {end}' if end is not None else 'true'}"
        f" and {_absent(run, slaves, send)}"
        for (at, slaves), end in itertools.zip_longest(changes, ends)
    ]
    return f"{send}.outcome = 'SEND_OK' and {send}.broker = {literal(broker)} and ({' or '.join(absent)})"


def _absent(run: Run, slaves: Sequence[str], send: str) -> str:
    if not slaves:
        return "true"
    removed_at = max(
        (one.at for one in run.cluster_events if one.node in slaves and one.kind in REMOVING_KINDS), default=-1
    )
    return f"{send}.ended_at > {removed_at} and not arrays_overlap(nodes, array({', '.join(map(literal, slaves))}))"
