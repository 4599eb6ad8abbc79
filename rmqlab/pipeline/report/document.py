"""Shape of an audit's summary, `audit.json`, as far as the page reads it."""

from typing import Annotated, Any, Final, TypedDict

import msgspec

from rmqlab.verdict.verdict import Verdict

_LAST_MILLIS: Final = 253_402_300_799_999
"""The end of the year 9999, after which Python has no dates."""

Millis = Annotated[int, msgspec.Meta(ge=0, le=_LAST_MILLIS)]


class _Evidence(TypedDict):
    says: str


class _Finding(TypedDict):
    value: float | None
    unit: str
    at_least: bool
    missing: str
    evidence: list[_Evidence]


class _Presence(TypedDict):
    outcome: str
    nodes: list[str]
    is_consumed: bool
    messages: int


class _Summary(TypedDict):
    verdict: Verdict
    why: list[str]
    warnings: list[str]
    violating: list[str]
    findings: dict[str, _Finding]
    began_at: Millis
    ended_at: Millis
    presence: list[_Presence]
    tables: str


def parse_summary(text: str) -> dict[str, Any]:
    """Return the summary with all its members. Raises ValueError if it is damaged."""
    try:
        summary: dict[str, Any] = msgspec.json.decode(text)
        msgspec.convert(summary, _Summary)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise ValueError(str(exc)) from None
    return summary
