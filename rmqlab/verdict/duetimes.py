"""Rules about the delivery of delayed messages, for both judges.

They follow from 4.9.8. The entry of a delayed message has its store time and the delay of its level
(ScheduleMessageService.computeDeliverTimestamp, in CommitLog.checkMessageAndReturnSize); a level beyond the last one is
the last one, in the record, too. A master delivers when its own clock has reached that time, and stores with the same
clock. It delivers at once if the time is farther away than the whole delay of the level (correctDeliverTimestamp):
after its clock was set back, or after a start with shorter delays. It repeats deliveries that its saved offset does not
have: after a crash, or as a new master.
"""

import collections
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from rmqlab.verdict.clocksteps import TOLERANCE
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.headers import why_unknown as why_nothing_to_compare
from rmqlab.verdict.roles import Roles

_LEVELS: Final = "message_delay_level"


def why_unknown(conditions: Conditions, *, has_sends: bool, has_stores: bool) -> str:
    """Return why deliveries cannot be compared with due times; empty if they can.

    A broker that starts with other delay levels may enter old messages again, with other due times. A slave of another
    configuration has other due times than its master.
    """
    if why := why_nothing_to_compare(has_sends=has_sends, has_stores=has_stores):
        return why
    return "brokers had different delay levels" if _LEVELS in conditions.changed_settings else ""


def wrong_clocks(conditions: Conditions, faulted: Collection[str], roles: Roles) -> Mapping[str, str]:
    """Return the broker names of which a master had a wrong clock, with the reason.

    A master whose clock was set back delivers at once. Due times and deliveries have the times of masters only: those
    of slaves and of clients do not matter. `faulted` are the nodes whose clocks a fault set.
    """
    back = {process for process, millis in conditions.went_back.items() if millis > TOLERANCE}
    wrong: dict[str, str] = {}
    for span in roles.spans:
        if span.is_master and span.node in faulted:
            wrong.setdefault(span.broker, f"a fault set the clock of {span.node}, perhaps while messages waited")
        elif span.is_master and span.node in back:
            wrong.setdefault(span.broker, f"the clock of {span.node} went back, perhaps while messages waited")
    return wrong


def at_right_clocks(early: Finding, wrong: Mapping[str, str], delayed: Collection[str]) -> Finding:
    """Return the finding without deliveries at brokers with wrong clocks.

    `delayed` are the broker names with delayed messages.
    """
    why = {broker: text for broker, text in wrong.items() if broker in delayed}
    return early.without(why.keys()) or early.withdrawn("; ".join(why.values())) if why else early


def may_repeat(broker: str, started: Iterable[str], roles: Roles) -> bool:
    """Return True if masters of a broker name may have delivered messages twice.

    `started` are the nodes of all events `node_ready`.
    """
    starts = collections.Counter(started)
    members = {span.node for span in roles.spans if span.broker == broker}
    return len(roles.masters_over_time(broker)) > 1 or any(starts[node] > 1 for node in members)
