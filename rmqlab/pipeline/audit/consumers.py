"""Questions about consumer groups, whose tables are computed together.

They are about offsets that moved back, and about the duplicates that these explain.
"""

from collections.abc import Iterator

from rmqlab.pipeline.audit import duplicates, holders, offsetfiles, ownoffsets, rollbacks
from rmqlab.pipeline.audit.relations import Query
from rmqlab.pipeline.audit.run import Run, written
from rmqlab.verdict.findings import Finding


def judge(run: Run) -> Iterator[Finding]:
    """Yield the findings of these questions.

    Writes the tables `offset_moves`, `offset_floors` and `repeats`.
    """
    offsets = offsetfiles.read(run)
    *_, again, disturbances = run.batch(
        written("offset_moves", rollbacks.MOVES, is_rare=True),
        Query(duplicates.REPEATED, "repeated"),
        Query(duplicates.AGAIN),
        Query(holders.DISTURBANCES),
    )
    causes = duplicates.causes(run, disturbances, is_any_again=bool(again))
    floors, _ = run.batch(written("offset_floors", offsetfiles.FLOORS, is_bounded=True), written("repeats", causes))
    yield from rollbacks.judge(run)
    yield from ownoffsets.judge(run)
    yield from offsetfiles.judge(run, offsets, floors)
    yield from duplicates.judge(run)
