"""What the audit answers: one value for each metric, with the first of its evidence, or what is missing to know it."""

from typing import Any

import attrs

EVIDENCE_LIMIT = 100
"""Pieces of evidence kept for one finding; its value counts all. The tables hold every one."""

MESSAGES = "messages"
BYTES = "bytes"
SECONDS = "s"


@attrs.frozen(kw_only=True)
class Finding:
    """The answer to one metric."""

    metric: str
    unit: str
    value: int | float | None
    """None: not known, and `missing` says why."""
    is_at_least: bool = False
    missing: str = ""
    evidence: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "unit": self.unit,
            "at_least": self.is_at_least,
            "missing": self.missing,
            "evidence": list(self.evidence),
        }


def unknown(metric: str, unit: str, missing: str) -> Finding:
    """A finding that says what is missing."""
    return Finding(metric=metric, unit=unit, value=None, missing=missing)
