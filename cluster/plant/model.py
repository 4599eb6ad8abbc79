"""Classes for kinds of violations, changes of a copy, and expected findings."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from rmqlab.cluster.plant.runcopy import RunCopy

Nodes = tuple[str, ...]


class NothingToPlantError(ValueError):
    """The run has no place for this kind. The text names the missing place."""


@attrs.frozen(kw_only=True)
class Edit:
    """One change of one file."""

    node: str
    """Node that the file belongs to; `cluster` for the supervisor."""
    file: str
    """Relative to the run's directory."""
    offset: int | None = None
    """Byte offset in the file; None if the whole file changed."""
    text: str

    def as_json(self) -> dict[str, Any]:
        return {"node": self.node, "file": self.file, "offset": self.offset, "says": self.text}


@attrs.frozen(kw_only=True)
class Change:
    """The changes that a kind's function made to the copy of a run."""

    edits: tuple[Edit, ...]
    victims: tuple[str, ...] = ()
    """Unique ids of the damaged messages."""
    made_up_ids: tuple[str, ...] = ()
    """Unique ids that were made up."""
    others: tuple[str, ...] = ()
    """Unique ids of other affected messages, which a judge may report."""
    broker: str = ""
    """The broker name concerned."""
    consumer_group: str = ""

    @property
    def nodes(self) -> Nodes:
        """The nodes whose files were changed."""
        return tuple(dict.fromkeys(edit.node for edit in self.edits))


@attrs.frozen(kw_only=True)
class Expected:
    """A metric that a judge must report, as a kind declares it.

    The target is a placeholder: NODE stands for each changed node, SLAVE for each slave of the affected broker name,
    GROUP for the consumer group.
    """

    metric: str
    names_victims: bool = False
    names_made_up: bool = False
    is_unknown: bool = False
    """The metric must become unknown; else it must rise."""

    @property
    def must_name(self) -> str:
        """Which messages the finding must name, in words."""
        return " and ".join(
            word
            for word, is_named in (
                ("the messages", self.names_victims),
                ("the invented messages", self.names_made_up),
            )
            if is_named
        )


GAP = Expected(metric="gap NODE")
"""Incomplete evidence: the verdict is `unknown` or worse, and one of its lines names the process."""


WARNING = Expected(metric="warning NODE")
"""A warning without a metric: the verdict, of any value, has a line that names the process."""


@attrs.frozen(kw_only=True)
class Kind:
    """One kind of violation."""

    name: str
    does: str
    where: Callable[["RunCopy"], Nodes]
    """Chooses the nodes whose files are changed."""
    change: Callable[["RunCopy", Nodes], Change]
    expects: tuple[Expected, ...]
    consequences: tuple[str, ...] = ()
    """Metrics, without targets, that may change as well; `*` matches any text.

    `gap` allows that the evidence is called incomplete, which makes metrics unknown that rest on it.
    """


@attrs.frozen(kw_only=True)
class Report:
    """One thing that a judge must report of a planted run."""

    metric: str
    """With its target; `gap NODE` for incomplete evidence, `warning NODE` for a line of the verdict."""
    message_ids: tuple[str, ...] = ()
    """All of these must be named."""
    also_allowed: tuple[str, ...] = ()
    """These may be named, and no others, unless `message_ids` is empty."""
    is_unknown: bool = False
    """The metric must become unknown; else it must rise."""

    def as_json(self) -> dict[str, Any]:
        return {"metric": self.metric, "unknown": self.is_unknown, "message_ids": list(self.message_ids)}


@attrs.frozen(kw_only=True)
class Planted:
    """A copy of a run with one violation in it."""

    kind: Kind
    seed: int
    directory: str
    change: Change
    reports: tuple[Report, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "kind": self.kind.name,
            "does": self.kind.does,
            "seed": self.seed,
            "directory": self.directory,
            "edits": [edit.as_json() for edit in self.change.edits],
            "message_ids": list(self.change.victims),
            "made_up_ids": list(self.change.made_up_ids),
            "must_report": [report.as_json() for report in self.reports],
            "consequences": list(self.kind.consequences),
        }


def reports_of(kind: Kind, change: Change, slaves: Sequence[str]) -> tuple[Report, ...]:
    """Return the reports that a judge must make, with their targets.

    `slaves` are those of the broker name concerned.
    """
    targets = {"": ("",), "NODE": change.nodes, "SLAVE": slaves, "GROUP": (change.consumer_group,)}
    reports = []
    for expected in kind.expects:
        name, _, target = expected.metric.partition(" ")
        ids = (
            *(change.victims if expected.names_victims else ()),
            *(change.made_up_ids if expected.names_made_up else ()),
        )
        for filled in targets[target]:
            report = Report(
                metric=f"{name} {filled}".rstrip(),
                message_ids=ids,
                also_allowed=(*change.victims, *change.made_up_ids, *change.others),
                is_unknown=expected.is_unknown,
            )
            reports.append(report)
    return tuple(reports)
