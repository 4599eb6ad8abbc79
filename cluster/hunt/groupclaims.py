"""Claims that a hunt tries to break on a DLedger group of three."""

from collections.abc import Mapping

import attrs

from rmqlab.cluster.hunt.case import DELAYED, HALF_MESSAGE_LOADS, ORDERLY
from rmqlab.cluster.hunt.casefile import SLAVE_HAS_ALL
from rmqlab.cluster.hunt.claim import Claim, has_no_findings, is_zero
from rmqlab.cluster.hunt.claims import CLAIMS
from rmqlab.cluster.hunt.faults import MEMBERS
from rmqlab.cluster.hunt.preconditions import ends_with_power, is_undone, keeps_entries, keeps_entry_files
from rmqlab.cluster.supervisor.plan.topology import DLEDGER
from rmqlab.verdict.findings import NOT_MEASURED

GROUP_CLAIMS: Mapping[str, Claim] = {
    claim.name: claim
    for claim in (
        attrs.evolve(CLAIMS["nothing-lost"], applies=keeps_entries),
        Claim(
            name="same-log",
            text="the log of each member that has caught up is byte for byte the leader's",
            expectations=tuple(is_zero(f"divergence {member}", "bytes") for member in MEMBERS),
            applies=is_undone,
            empty_reason=NOT_MEASURED,  # for the leader
            since=SLAVE_HAS_ALL,
        ),
        Claim(
            name="members-complete",
            text="a member that has caught up has every acknowledged message",
            expectations=tuple(is_zero(f"missing {member}", "messages") for member in MEMBERS),
            applies=keeps_entry_files,
            since=SLAVE_HAS_ALL,
        ),
        Claim(
            name="queues-match",
            text=CLAIMS["queues-match"].text,
            expectations=tuple(is_zero(f"dangling {member}", "entries") for member in MEMBERS),
            applies=ends_with_power,
        ),
        Claim(
            name="all-queued",
            text=CLAIMS["all-queued"].text,
            expectations=tuple(is_zero(f"unqueued {member}", "records") for member in MEMBERS),
            applies=is_undone,
        ),
        attrs.evolve(
            CLAIMS["writes-return"],
            text="after the last undo, the group takes writes within a minute",
            applies=is_undone,
        ),
        attrs.evolve(CLAIMS["slave-returns"], name="members-return", text="after the last undo, all members catch up"),
        attrs.evolve(CLAIMS["all-consumed"], applies=keeps_entry_files),
        attrs.evolve(CLAIMS["in-order"], applies=lambda case: case.load == ORDERLY and keeps_entries(case)),
        attrs.evolve(CLAIMS["delays-end"], applies=lambda case: case.load == DELAYED and keeps_entry_files(case)),
        attrs.evolve(
            CLAIMS["halves-decided"], applies=lambda case: case.load in HALF_MESSAGE_LOADS and keeps_entry_files(case)
        ),
        CLAIMS["pulls-wake"],
        attrs.evolve(CLAIMS["explained"], expectations=has_no_findings(MEMBERS), applies=keeps_entries),
        CLAIMS["no-crash"],
    )
}
"""By name."""


def claims_in(mode: str) -> Mapping[str, Claim]:
    """Return the claims about clusters of a mode, by name."""
    return GROUP_CLAIMS if mode == DLEDGER else CLAIMS
