"""Claims that a hunt tries to break on a master and its slave.

They hold on a cluster that does what its users expect.
"""

from collections.abc import Mapping

from rmqlab.cluster.hunt.case import DELAYED, HALF_MESSAGE_LOADS, ORDERLY
from rmqlab.cluster.hunt.casefile import (
    ALL_IS_CONSUMED,
    DELAYS_ARE_OVER,
    HALVES_ARE_DECIDED,
    HEALED,
    SLAVE_HAS_ALL,
    WRITES_ARE_BACK,
)
from rmqlab.cluster.hunt.claim import Claim, has_no_findings, is_zero, reaches
from rmqlab.cluster.hunt.faults import CONSUMER, KINDS, MASTER, SLAVE
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
COPIED_DELIVERIES = 60
"""Messages sent in 20 s. Consumers commit every 5 s, and the slave copies offsets every 10 s."""


CLAIMS: Mapping[str, Claim] = {
    claim.name: claim
    for claim in (
        Claim(
            name="nothing-lost",
            text="every message acknowledged with SEND_OK is in a store",
            expectations=(is_zero("lost.SEND_OK", "messages"),),
            applies=keeps_disks,
        ),
        Claim(
            name="replicated",
            text="every message that a SYNC_MASTER acknowledged with SEND_OK is in its slave's store",
            expectations=(is_zero(f"unreplicated {MASTER}", "messages"),),
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
            expectations=(is_zero(f"divergence {SLAVE}", "bytes"),),
            applies=lambda case: keeps_common_files(case) and keeps_common_bytes(case) and has_time_to_follow(case),
        ),
        Claim(
            name="slave-complete",
            text="a slave that has caught up has every acknowledged message",
            expectations=(is_zero(f"missing {SLAVE}", "messages"),),
            applies=keeps_files,
            since=SLAVE_HAS_ALL,
        ),
        Claim(
            name="queues-match",
            text="entries of consume queues point at their records",
            expectations=tuple(is_zero(f"dangling {node}", "entries") for node in (MASTER, SLAVE)),
            applies=ends_with_power,
        ),
        Claim(
            name="all-queued",
            text="each record of a broker that stopped in order has its queue entry",
            expectations=tuple(is_zero(f"unqueued {node}", "records") for node in (MASTER, SLAVE)),
            applies=is_undone,
        ),
        Claim(
            name="offsets-advance",
            text="no consumer offset goes back",
            expectations=(is_zero("offset_rollbacks", "times"),),
            applies=lambda case: commits_in_time(case) and not loses_last_commits(case),
        ),
        Claim(
            name="progress-kept",
            text="nothing is consumed again because an offset went back",
            expectations=(is_zero("duplicates.offset_rollback", "deliveries"),),
            applies=lambda case: (
                commits_in_time(case) and not loses_last_commits(case) and not begins_with_old_offsets(case)
            ),
        ),
        Claim(
            name="offsets-saved",
            text="the master's file has the consumer offsets that were committed to it",
            expectations=(is_zero(f"offset_file_behind {MASTER}", "messages"),),
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
            expectations=(reaches(WRITES_ARE_BACK),),
            applies=lambda case: is_undone(case) and keeps_common_files(case),
        ),
        Claim(
            name="slave-returns",
            text="after the last undo, the slave catches up",
            expectations=(reaches(SLAVE_HAS_ALL),),
            since=WRITES_ARE_BACK,
        ),
        Claim(
            name="all-consumed",
            text="every stored message is consumed in the end",
            expectations=(reaches(ALL_IS_CONSUMED),),
            applies=can_consume_all,
            since=SLAVE_HAS_ALL,
        ),
        Claim(
            name="in-order",
            text="an orderly consumer receives each queue in its order",
            expectations=(is_zero(f"order.delivered {CONSUMER}", "messages"),),
            applies=lambda case: case.load == ORDERLY and keeps_consumed_messages(case),
        ),
        Claim(
            name="delays-end",
            text="every delayed message is consumed in the end",
            expectations=(reaches(DELAYS_ARE_OVER),),
            applies=lambda case: case.load == DELAYED and can_consume_all(case),
            since=ALL_IS_CONSUMED,
        ),
        Claim(
            name="halves-decided",
            text="every half message with SEND_OK is committed in the end, if necessary by a check with its producer",
            expectations=(reaches(HALVES_ARE_DECIDED),),
            applies=lambda case: case.load in HALF_MESSAGE_LOADS and can_consume_all(case),
            since=ALL_IS_CONSUMED,
        ),
        Claim(
            name="none-overdue",
            text="no broker holds back a delayed or half message beyond its time",
            expectations=(is_zero("overdue", "messages"),),
            applies=lambda case: case.load in (DELAYED, *HALF_MESSAGE_LOADS) and keeps_consumed_messages(case),
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
            expectations=has_no_findings((MASTER, SLAVE)),
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
