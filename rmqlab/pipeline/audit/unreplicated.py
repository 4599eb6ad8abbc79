"""Messages with SEND_OK from a SYNC_MASTER that none of its slaves has."""

from collections.abc import Mapping

from rmqlab.pipeline.audit.facts import Run, literal
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.grounds import SYNC_MASTER


def conditions(run: Run) -> Mapping[str, str]:
    """Return an expression for each `unreplicated BROKER`.

    Returns an empty mapping in a cluster of ASYNC_MASTERs. Does not count a message that a slave may have lost when
    records were removed from it after the send.
    """
    if run.conditions.role != SYNC_MASTER:
        return {}
    slaves: dict[str, list[str]] = {}
    for member in run.members.values():
        if member.broker and member.broker_id:
            slaves.setdefault(member.broker, []).append(member.name)
    return {f"unreplicated {broker}": _condition(run, broker, names) for broker, names in sorted(slaves.items())}


def _condition(run: Run, broker: str, slaves: list[str]) -> str:
    removed_at = max(
        (one.at for one in run.happenings if one.node in slaves and one.kind in REMOVING_KINDS), default=-1
    )
    return (
        f"send.outcome = 'SEND_OK' and send.broker = {literal(broker)} and send.ended_at > {removed_at}"
        f" and not arrays_overlap(nodes, array({', '.join(map(literal, slaves))}))"
    )
