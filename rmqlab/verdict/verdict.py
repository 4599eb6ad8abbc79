"""The three verdicts on a claim about a run."""

import enum
from collections.abc import Iterable


class Verdict(enum.StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"

    @property
    def exit_status(self) -> int:
        """Exit status of a command that ends with this verdict."""
        return {Verdict.HOLDS: 0, Verdict.VIOLATED: 1, Verdict.UNKNOWN: 2}[self]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return VIOLATED if any verdict is, else UNKNOWN if any is, else HOLDS."""
    known = set(verdicts)
    for verdict in (Verdict.VIOLATED, Verdict.UNKNOWN):
        if verdict in known:
            return verdict
    return Verdict.HOLDS
