"""Rules about store times that single records have, for both judges."""


def why_unknown(*, has_messages: bool, has_stores: bool, has_clock_faults: bool) -> str:
    """Return why the store times of a log are not compared; empty if they are.

    A clock fault may set the clock of a broker wrong for a single record.
    """
    if not has_stores:
        return "no store was given"
    if not has_messages:
        return "nothing was sent or delivered by a workload of the journal"
    return "a fault set clocks, perhaps for single records" if has_clock_faults else ""
