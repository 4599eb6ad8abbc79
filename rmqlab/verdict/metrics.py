"""Declarations and names of metrics.

A metric is called `NAME`, `NAME.CLASS` or `NAME TARGET`: `lost`, `lost.SEND_OK`, `write_unavailable broker-a`.
"""

import enum
from collections.abc import Iterable
from typing import Final

import attrs

from rmqlab.runtime.text.nearmiss import near_miss


class UnknownMetricError(ValueError):
    """No metric has this name. The text names similar metrics."""


class Source(enum.StrEnum):
    """Processes whose journals a metric rests on."""

    PRODUCERS = "producers"
    CONSUMERS = "consumers"
    BROKERS = "brokers"
    NAMESERVERS = "nameservers"
    SUPERVISOR = "the supervisor"


@attrs.frozen(kw_only=True)
class Metric:
    """The declaration of one metric."""

    name: str
    """Without its target."""
    target: str = ""
    """The placeholder of the target in `NAME TARGET`, such as BROKER; empty for a metric of the whole run."""
    unit: str
    text: str
    """Definition in one line."""
    definition: str = ""
    """The exact events that are counted or timed."""
    blind_to: str = ""
    """Violations that the metric cannot detect."""
    unknown_when: str = ""
    """Which missing evidence makes it unknown."""
    rests_on: frozenset[Source] = frozenset()
    """The journals that it is computed from: it is unknown while one of them is incomplete."""
    excused_by: frozenset[Source] = frozenset()
    """The journals in which a missing entry, such as a deletion by a request, could explain a value above zero."""
    is_floor: bool = False
    """True if missing entries can only make the value too low: then a value above zero is a lower bound."""
    is_largest: bool = False
    """True if the value is the largest one of several places, not their sum."""

    @property
    def title(self) -> str:
        return f"{self.name} {self.target}".rstrip()


def find_metric(metric: str, metrics: Iterable[Metric]) -> Metric:
    """Return the declaration that a metric's name belongs to.

    UnknownMetricError for an unknown name, and for a missing or superfluous target.
    """
    rows = list(metrics)
    name, _, target = metric.partition(" ")
    same = [row for row in rows if row.name == name]
    if not same:
        names = sorted({row.name for row in rows})
        hint = near_miss(name, names, most=3) or f"; metrics: {', '.join(names)}"
        raise UnknownMetricError(f"no metric {name!r}{hint}")
    of_queues = QUEUE_MARK in target
    for row in sorted(same, key=lambda row: (row.target == "QUEUE") != of_queues):
        if bool(target) == bool(row.target):
            return row
    raise UnknownMetricError(
        f"metric {metric!r}: expected {' or '.join(row.title for row in same)}"
        + (f", such as {name} {_EXAMPLES[same[0].target]}" if same[0].target in _EXAMPLES else "")
    )


QUEUE_MARK: Final = "@"
"""In the name of a queue (`orders@broker-a:0`), and in no other target."""
_EXAMPLES = {
    "BROKER": "broker-a",
    "QUEUE": "orders@broker-a:0",
    "NODE": "broker-a-s",
    "SLAVE": "broker-a-s",
    "GROUP": "shop",
    "NAMESERVER": "namesrv-1",
    "WATCHER": "namesrv-1",
}
