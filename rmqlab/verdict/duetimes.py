"""Rules about the delivery of delayed messages, for both judges."""

from typing import Final

from rmqlab.verdict.headers import why_unknown as why_nothing_to_compare
from rmqlab.verdict.judgement import Conditions

_LEVELS: Final = "message_delay_level"


def why_unknown(conditions: Conditions, *, has_sends: bool, has_stores: bool) -> str:
    """Return why deliveries cannot be compared with due times; empty if they can.

    A broker that starts with other delay levels may enter old messages again, with other due times. A slave of another
    configuration has other due times than its master. A broker whose clock was set back delivers at once.
    """
    if why := why_nothing_to_compare(has_sends=has_sends, has_stores=has_stores):
        return why
    if conditions.has_clock_faults:
        return "a fault set clocks, perhaps while messages waited"
    return "brokers had different delay levels" if _LEVELS in conditions.changed_settings else ""
