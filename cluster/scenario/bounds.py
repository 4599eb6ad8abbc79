"""Checks that an expectation can be judged: its metric or event, labels and units.

Pure.
"""

from collections.abc import Sequence

from rmqlab.cluster.scenario.binding import BindingError, Path, near
from rmqlab.cluster.scenario.eventfields import review_field_bounds, review_filters
from rmqlab.cluster.scenario.model import COUNT, Expectation
from rmqlab.cluster.scenario.observation import observation_unit
from rmqlab.cluster.scenario.quantity import Quantity
from rmqlab.cluster.scenario.targets import ScenarioTargets, WrongTargetError
from rmqlab.cluster.scenario.waits import OUTCOMES
from rmqlab.runtime.config.validators import as_written
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.runtime.text.counted import singular
from rmqlab.runtime.text.number_text import plain
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.metrics import UnknownMetricError, find_metric


def review_expectation(expectation: Expectation, path: Path, labels: Sequence[str], known: ScenarioTargets) -> None:
    """Raise BindingError for the first invalid part.

    `labels` are in the order of their steps.
    """
    for key in ("after", "before"):
        label = getattr(expectation, key)
        if label is not None and label not in labels:
            raise BindingError((*path, key), f"no step has the label {label!r}{near(label, labels)}")
    after, before = expectation.after, expectation.before
    if after is not None and before is not None and labels.index(before) <= labels.index(after):
        raise BindingError((*path, "before"), f"{before!r} is not later than after, {after!r}: nothing is between them")
    unit = _unit_of(expectation, path, known)
    if expectation.same_as is not None:
        _review_same(expectation, (*path, "same_as"), unit, known)
    for key in ("at_least", "at_most", "equals"):
        bound = getattr(expectation, key)
        if isinstance(bound, str) and unit:
            raise BindingError((*path, key), f'{as_written(bound)}: expected a number of {unit}, such as "0 {unit}"')
        if isinstance(bound, Quantity) and unit and bound.unit not in (unit, singular(unit)):
            raise BindingError(
                (*path, key), f'{bound}: expected a number of {unit}, such as "{plain(bound.value)} {unit}"'
            )
        if isinstance(bound, Quantity) and expectation.metric is not None and bound.value < 0:
            raise BindingError((*path, key), f"{bound}: expected 0 {unit} or more, as metrics are never negative")
    least, most = expectation.at_least, expectation.at_most
    if least is not None and most is not None and least.value > most.value:
        raise BindingError((*path, "at_most"), f"{most} is less than at_least, {least}: no value could satisfy both")


def _unit_of(expectation: Expectation, path: Path, known: ScenarioTargets) -> str:
    """Return the unit of the bound; empty if any word may follow the number."""
    if expectation.metric is not None:
        for key in ("where", "after", "before", "take", "field"):
            if getattr(expectation, key) not in (None, {}, COUNT):
                raise BindingError((*path, key), f"{key} is valid only with `event`, not with `metric`")
        return _metric((*path, "metric"), expectation.metric, known)
    kind = EVENT_TYPES.get(expectation.event or "")
    if kind is None:
        raise BindingError(
            (*path, "event"), f"no kind of event {expectation.event!r}{near(expectation.event or '', EVENT_TYPES)}"
        )
    of_field = [] if expectation.field is None else [("field", expectation.field)]
    for key, name in [*of_field, *(("where", name) for name in expectation.where)]:
        if name != "node" and name not in kind.fields and not kind.is_open:
            raise BindingError((*path, key), f"{kind.name} has no field {name!r}{near(name, [*kind.fields, 'node'])}")
    review_filters(expectation.where, kind, (*path, "where"))
    _review_where(expectation, (*path, "where"), known)
    needs_field = expectation.take not in (COUNT, "delay")
    if needs_field and expectation.field is None:
        known_fields = ", ".join(sorted(kind.fields))
        raise BindingError(
            (*path, "take"), f"{expectation.take!r} needs a field of {kind.name}: expected {known_fields}"
        )
    if not needs_field and expectation.field is not None:
        raise BindingError(
            (*path, "field"), f"take = {expectation.take!r} uses no field: expected another take, or none"
        )
    review_field_bounds(expectation, kind, path)
    return observation_unit(expectation)


def _review_same(expectation: Expectation, path: Path, unit: str, known: ScenarioTargets) -> None:
    other = expectation.same_as or ""
    if other == expectation.metric:
        raise BindingError(path, f"{other} is always the same as itself: expected another metric")
    if _metric(path, other, known) != unit and unit:
        raise BindingError(path, f"{other}: expected a metric in {unit}")


def _review_where(expectation: Expectation, path: Path, known: ScenarioTargets) -> None:
    """Reject impossible names and outcomes: a count of 0 would seem to be a result."""
    for field, value in expectation.where.items():
        for wanted in value if isinstance(value, list) else [value]:
            if field == "outcome" and str(wanted) not in OUTCOMES:
                raise BindingError(path, f"no outcome {wanted!r}{near(str(wanted), OUTCOMES)}")
            if field == "node":
                try:
                    known.check_source(str(wanted))
                except WrongTargetError as exc:
                    raise BindingError(path, str(exc)) from None


def _metric(path: Path, name: str, known: ScenarioTargets) -> str:
    """Return the unit of a metric."""
    try:
        found = find_metric(name, METRICS)
        known.check_metric_target(found.target, name.partition(" ")[2])
    except (UnknownMetricError, WrongTargetError) as exc:
        raise BindingError(path, str(exc)) from None
    return found.unit
