"""A run with more records of one message than a finding lists."""

from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.verdict.findings import PLACES_LIMIT

METRIC = "origin_disagreement"
"""Each record but the first is too late to have been created during the send."""


def many_records() -> MadeUpRun:
    """Return a run with a message that was stored again and again, first at the slave."""
    run = MadeUpRun()
    message = run.send(1)
    queue = run.logs["broker-a"][-1].queue
    for nth in range(PLACES_LIMIT):
        run.wait(2)
        run.store(message, queue, ("broker-a-s",) if nth % 3 else ("broker-a",))
    run.store(message, queue, ("broker-a", "broker-a-s"))
    return run
