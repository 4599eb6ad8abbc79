"""Claims that a hunt tries to break.

They hold on a cluster that does what its users expect.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rmqlab.cluster.hunt.case import DELAYED, HALF_MESSAGE_LOADS, ORDERLY, Case
from rmqlab.cluster.hunt.casefile import (
    ALL_IS_CONSUMED,
    CUT,
    DELAYS_ARE_OVER,
    HALVES_ARE_DECIDED,
    HEALED,
    SLAVE_HAS_ALL,
    WRITES_ARE_BACK,
    end_label_of,
    label_of,
)
from rmqlab.cluster.hunt.faults import CONSUMER, KINDS, MASTER, SLAVE, Fault
from rmqlab.cluster.hunt.preconditions import (
    begins_with_old_offsets,
    can_consume_all,
    commits_in_time,
    copies_offsets,
    ends_with_power,
    first_fault_hiding_the_slave,
    has_silent_master,
    has_time_to_follow,
    is_undone,
    keeps_common_bytes,
    keeps_common_files,
    keeps_consumed_messages,
    keeps_disks,
    keeps_files,
    keeps_slave,
    last_nameserver_start,
    loses_last_commits,
    only_master_ends,
    replies_at_once,
)
from rmqlab.verdict.findings import NO_COMMIT_DUE

QUICK_MILLIS = 2500
"""Maximum duration of a send that does not wait for its slave; the timeout of that wait is 3 s."""


READ_SECONDS = 45.0
"""Time in which a consumer switches to the slave: it polls the route every 30 s, and retries a pull after 3 s."""
UNDER_WAY = 2
"""Maximum number of replies in flight to the producer when the slave dies."""
UNEXPLAINED = {
    f"clock_disagreement {MASTER}": "s",
    f"clock_disagreement {SLAVE}": "s",
    "content_disagreement": "messages",
    "delivered_early": "messages",
    "delivered_unstored": "messages",
    "duplicates.unexplained": "deliveries",
    "header_disagreement": "messages",
    "order.stored": "messages",
    "origin_disagreement": "messages",
    "place_disagreement": "messages",
    "store_time_disagreement": "messages",
    "stored_unsent": "messages",
    "unreadable": "messages",
}
"""Metrics that none of the faults of a hunt can move, with their units."""
COPIED_DELIVERIES = 60
"""Messages sent in 20 s. Consumers commit every 5 s, and the slave copies offsets every 10 s."""


@attrs.frozen(kw_only=True)
class Claim:
    """One claim."""

    name: str
    text: str
    expectations: tuple[Mapping[str, Any], ...]
    """Expectations as in a scenario file. A violated one breaks the claim."""
    while_lasting: Callable[[Case, Fault], bool] | None = None
    """Selects faults: the expectations are judged during each. None: they are judged once, for the whole run."""
    applies: Callable[[Case], bool] = lambda _: True
    """Returns True for cases in which the claim must hold."""
    empty_reason: str = ""
    """The judge's reason if the run has no event that the claim concerns. Then the claim counts as held."""
    since: str = ""
    """Label of a step: the claim is judged only in runs that reach it."""
    begin: Callable[[Case], str | None] = lambda _: None
    """Returns the label of the step from which on events count; None for the start of the run."""
    until: Callable[[Case], str | None] = lambda _: None
    """Returns the label of the step at which the claim ends; None for the end of the run."""

    def expectations_for(self, case: Case) -> list[dict[str, Any]]:
        """Return the expectations as a scenario file has them."""
        if self.while_lasting is None:
            span = {"after": self.begin(case), "before": self.until(case)}
            spans: list[dict[str, Any]] = [{key: label for key, label in span.items() if label is not None}]
        else:
            spans = [
                _span(case, number) for number, fault in enumerate(case.faults, 1) if self.while_lasting(case, fault)
            ]
        return [{**expectation, **span} for span in spans for expectation in self.expectations]


def _span(case: Case, number: int) -> dict[str, Any]:
    fault = case.faults[number - 1]
    end = CUT if fault in case.in_force_at_end() else end_label_of(number, fault)
    return {"after": label_of(number, fault), "before": end}


def _reaches(label: str) -> Mapping[str, Any]:
    return {"name": f"{label}: reached", "event": "step", "where": {"label": label}, "equals": "1 events"}


def _is_metric(metric: str, unit: str) -> Mapping[str, Any]:
    return {"metric": metric, "equals": f"0 {unit}"}


CLAIMS: Mapping[str, Claim] = {
    claim.name: claim
    for claim in (
        Claim(
            name="nothing-lost",
            text="every message acknowledged with SEND_OK is in a store",
            expectations=(_is_metric("lost.SEND_OK", "messages"),),
            applies=keeps_disks,
        ),
        Claim(
            name="replicated",
            text="every message that a SYNC_MASTER acknowledged with SEND_OK is in its slave's store",
            expectations=(_is_metric(f"unreplicated {MASTER}", "messages"),),
            applies=lambda case: case.role == "SYNC_MASTER" and keeps_slave(case),
        ),
        Claim(
            name="not-alone",
            text="while its slave is dead, a SYNC_MASTER acknowledges no send with SEND_OK",
            expectations=(
                {
                    "name": "SEND_OK without a slave",
                    "event": "sent",
                    "where": {"outcome": "SEND_OK"},
                    "at_most": f"{UNDER_WAY} events",
                },
            ),
            while_lasting=lambda _, fault: fault.target == SLAVE and KINDS[fault.kind].ends_process,
            applies=replies_at_once,
        ),
        Claim(
            name="same-log",
            text="the slave's log is byte for byte its master's",
            expectations=(_is_metric(f"divergence {SLAVE}", "bytes"),),
            applies=lambda case: keeps_common_files(case) and keeps_common_bytes(case) and has_time_to_follow(case),
        ),
        Claim(
            name="slave-complete",
            text="a slave that has caught up has every acknowledged message",
            expectations=(_is_metric(f"missing {SLAVE}", "messages"),),
            applies=keeps_files,
            since=SLAVE_HAS_ALL,
        ),
        Claim(
            name="queues-match",
            text="entries of consume queues point at their records",
            expectations=tuple(_is_metric(f"dangling {node}", "entries") for node in (MASTER, SLAVE)),
            applies=ends_with_power,
        ),
        Claim(
            name="all-queued",
            text="each record of a broker that stopped in order has its queue entry",
            expectations=tuple(_is_metric(f"unqueued {node}", "records") for node in (MASTER, SLAVE)),
            applies=is_undone,
        ),
        Claim(
            name="offsets-advance",
            text="no consumer offset goes back",
            expectations=(_is_metric("offset_rollbacks", "times"),),
            applies=lambda case: commits_in_time(case) and not loses_last_commits(case),
        ),
        Claim(
            name="progress-kept",
            text="nothing is consumed again because an offset went back",
            expectations=(_is_metric("duplicates.offset_rollback", "deliveries"),),
            applies=lambda case: (
                commits_in_time(case) and not loses_last_commits(case) and not begins_with_old_offsets(case)
            ),
        ),
        Claim(
            name="offsets-saved",
            text="the master's file has the consumer offsets that were committed to it",
            expectations=(_is_metric(f"offset_file_behind {MASTER}", "messages"),),
            applies=is_undone,
            empty_reason=NO_COMMIT_DUE,
            since=ALL_IS_CONSUMED,
        ),
        Claim(
            name="offsets-copied",
            text="a consumer that starts with the slave's offsets receives at most the messages of 20 s again",
            expectations=({"metric": "duplicates.offset_rollback", "at_most": f"{COPIED_DELIVERIES} deliveries"},),
            applies=lambda case: commits_in_time(case) and copies_offsets(case),
        ),
        Claim(
            name="slave-notices",
            text="a slave that receives nothing from its master for 45 s closes the connection",
            expectations=(
                {
                    "name": "connections that the slave closed",
                    "event": "ha_client_disconnected",
                    "where": {"node": SLAVE},
                    "before": HEALED,
                    "at_least": "1 events",
                },
            ),
            applies=has_silent_master,
        ),
        Claim(
            name="quick-sends",
            text="a send ends within 2.5 s while the master has a correct view of its slave",
            expectations=(
                {
                    "name": "longest send",
                    "event": "sent",
                    "take": "max",
                    "field": "took",
                    "at_most": f"{QUICK_MILLIS} ms",
                },
            ),
            until=first_fault_hiding_the_slave,
        ),
        Claim(
            name="writes-return",
            text="after the last undo, sends are acknowledged by the slave within a minute",
            expectations=(_reaches(WRITES_ARE_BACK),),
            applies=lambda case: is_undone(case) and keeps_common_files(case),
        ),
        Claim(
            name="slave-returns",
            text="after the last undo, the slave catches up",
            expectations=(_reaches(SLAVE_HAS_ALL),),
            since=WRITES_ARE_BACK,
        ),
        Claim(
            name="all-consumed",
            text="every stored message is consumed in the end",
            expectations=(_reaches(ALL_IS_CONSUMED),),
            applies=can_consume_all,
            since=SLAVE_HAS_ALL,
        ),
        Claim(
            name="in-order",
            text="an orderly consumer receives each queue in its order",
            expectations=(_is_metric(f"order.delivered {CONSUMER}", "messages"),),
            applies=lambda case: case.load == ORDERLY and keeps_consumed_messages(case),
        ),
        Claim(
            name="delays-end",
            text="every delayed message is consumed in the end",
            expectations=(_reaches(DELAYS_ARE_OVER),),
            applies=lambda case: case.load == DELAYED and can_consume_all(case),
            since=ALL_IS_CONSUMED,
        ),
        Claim(
            name="halves-decided",
            text="every half message with SEND_OK is committed in the end, if necessary by a check with its producer",
            expectations=(_reaches(HALVES_ARE_DECIDED),),
            applies=lambda case: case.load in HALF_MESSAGE_LOADS and can_consume_all(case),
            since=ALL_IS_CONSUMED,
        ),
        Claim(
            name="routes-return",
            text="a nameserver that was restarted has both brokers in its routes after 35 s",
            expectations=tuple(
                {
                    "name": f"registrations of broker id {number}",
                    "event": "broker_registered",
                    "where": {"broker_name": MASTER, "broker_id": number},
                    "at_least": "1 events",
                }
                for number in (0, 1)
            ),
            applies=lambda case: last_nameserver_start(case) is not None,
            since=WRITES_ARE_BACK,
            begin=last_nameserver_start,
        ),
        Claim(
            name="reads-survive",
            text="while the slave lives, a consumer waits for reads at most 45 s after the master's end",
            expectations=({"metric": f"read_unavailable {MASTER}", "at_most": f"{READ_SECONDS:g} s"},),
            applies=only_master_ends,
        ),
        Claim(
            name="pulls-wake",
            text="a pull that a broker holds ends when a message for it arrives",
            expectations=({"name": "pulls held too long", "event": "held_pulls_overdue", "equals": "0 events"},),
        ),
        Claim(
            name="explained",
            text="the checks find nothing that no fault can cause",
            expectations=tuple(_is_metric(metric, unit) for metric, unit in UNEXPLAINED.items()),
            applies=lambda case: keeps_consumed_messages(case) and not case.uses("corruption"),
        ),
        Claim(
            name="no-crash",
            text="no process crashes or loops forever",
            expectations=({"name": "crashes", "event": "node_crashed", "equals": "0 events"},),
        ),
    )
}
"""By name."""
