"""Binds mappings to the classes of `scenario/model.py`.

Errors name the place and what was expected. Pure.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs

from rmqlab.cluster.scenario.actions import VERBS, read_argument
from rmqlab.cluster.scenario.model import TAKES, Action, Expectation, Scenario, Step, Variant, Workload
from rmqlab.cluster.scenario.quantity import Quantity, parse_seconds
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.cluster.workload.consume import ConsumeConfig
from rmqlab.cluster.workload.produce import ProduceConfig
from rmqlab.remoting.names import group_fault, topic_fault
from rmqlab.runtime.config.settings import Settings, SettingsError
from rmqlab.runtime.config.validators import as_written
from rmqlab.runtime.config.valuetypes import describe_type, is_of_type
from rmqlab.runtime.text.nearmiss import near_miss

Path = tuple[str | int, ...]
CONFIGS: Mapping[str, Any] = {"produce": ProduceConfig, "consume": ConsumeConfig}
"""Class of the settings of each kind of workload."""
_SET_BY_RUN = {"namesrv_addr", "source_ip"}


class BindingError(ValueError):
    """A key or value is invalid. `path` leads to it: keys, and indices of arrays."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path


def near(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?`, or the list of all known words."""
    names = sorted(known)
    if not names:
        return "; there are none"
    return near_miss(word, names) or f"; expected one of {', '.join(names)}"


@attrs.frozen
class Table:
    """A TOML table that is being read; `path` leads to it."""

    values: Mapping[str, Any]
    path: Path = ()

    @classmethod
    def of(cls, value: object, path: Path) -> "Table":
        if not isinstance(value, Mapping):
            raise BindingError(path, f"expected a table, got {as_written(value)}")
        return cls(value, path)

    def only(self, *keys: str) -> None:
        """Reject all other keys."""
        for key in self.values:
            if key not in keys:
                raise BindingError((*self.path, key), f"no such key{near(key, keys)}")

    def read(self, key: str, read: Callable[[Any], Any], default: Any = None) -> Any:
        """Return a value as `read` returns it.

        Its ValueError or TypeError becomes a BindingError.
        """
        if key not in self.values:
            return default
        try:
            return read(self.values[key])
        except BindingError:
            raise
        except (ValueError, TypeError) as exc:
            raise BindingError((*self.path, key), str(exc)) from None

    def text(self, key: str, default: str | None = None) -> str:
        if key not in self.values and default is None:
            raise BindingError(self.path, f"{key} is missing")
        value: str = self.read(key, _text, default)
        return value

    def tables(self, key: str) -> list["Table"]:
        """Return an array of tables; empty if it is missing."""
        values = self.values.get(key, [])
        if not isinstance(values, list):
            raise BindingError((*self.path, key), f"expected an array of tables, [[{key}]]")
        return [Table.of(value, (*self.path, key, index)) for index, value in enumerate(values)]


def bind_scenario(values: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a TOML document.

    BindingError for the first invalid key or value.
    """
    table = Table(values)
    table.only("name", "claim", "why", "sources", "cluster", "workload", "step", "end", "expect", "hardened")
    return Scenario(
        name=table.text("name"),
        claim=table.text("claim"),
        why=table.text("why", ""),
        sources=table.read("sources", _texts, ()),
        cluster=_cluster(table),
        workloads=tuple(map(_workload, table.tables("workload"))),
        steps=tuple(map(_step, table.tables("step"))),
        end=table.read("end", parse_seconds),
        expectations=tuple(map(_expectation, table.tables("expect"))),
        hardened=_variant(Table.of(values["hardened"], ("hardened",))) if "hardened" in values else None,
    )


_CLUSTER_TYPES: Mapping[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
    bool: ((bool,), "true or false"),
    None: ((Mapping,), "a table"),
}


def _check_type(path: Path, value: object, expected: Any) -> None:
    wanted, words = _CLUSTER_TYPES.get(expected, _CLUSTER_TYPES[None])
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise BindingError(path, f"{as_written(value)}: expected {words}")


def _cluster(scenario: Table) -> ClusterSpec:
    table = Table.of(scenario.values.get("cluster", {}), ("cluster",))
    table.only(*(field.name for field in attrs.fields(ClusterSpec) if field.name not in ("name", "added", "removed")))
    given: dict[str, Any] = {}
    types = {field.name: field.type for field in attrs.fields(ClusterSpec)}
    for key, value in table.values.items():
        _check_type(("cluster", key), value, types[key])
        for target, settings in value.items() if key == "node_settings" else ():
            _check_type(("cluster", key, target), settings, Mapping)
        try:
            ClusterSpec(**{key: value})
        except (ValueError, TypeError) as exc:
            raise BindingError(("cluster", key), str(exc.args[0])) from None
        given[key] = value
    return ClusterSpec(name="scenario", **given)


def _workload(table: Table) -> Workload:
    kind = table.read("kind", _one_of(CONFIGS))
    if kind is None:
        raise BindingError(table.path, f"kind is missing: expected one of {', '.join(CONFIGS)}")
    own = {"name", "kind", "nameservers", "start"}
    known = {field.name for field in attrs.fields(CONFIGS[kind])} - _SET_BY_RUN
    table.only(*own, *known)
    config = {key: value for key, value in table.values.items() if key not in own}
    for key in ("topic", "group"):
        name = config.get(key)
        if name == "":
            raise BindingError((*table.path, key), "expected a name, got an empty text")
        fault = (topic_fault if key == "topic" else group_fault)(name) if isinstance(name, str) else None
        if fault is not None:
            raise BindingError((*table.path, key), fault)
    types = {field.name: field.type for field in attrs.fields(CONFIGS[kind])}
    for key, value in config.items():
        if not is_of_type(value, types[key]):
            raise BindingError((*table.path, key), f"{as_written(value)}: expected {describe_type(types[key])}")
        try:
            Settings("", {key: value}, {}).bind(CONFIGS[kind])
        except SettingsError as exc:
            raise BindingError((*table.path, key), str(exc).removeprefix(": ")) from None
    return Workload(
        name=table.text("name"),
        kind=kind,
        config=config,
        nameservers=table.read("nameservers", _texts, ()),
        is_early=table.read("start", _one_of(("early", "step")), "early") == "early",
    )


def _step(table: Table) -> Step:
    own = ("at", "after", "wait", "within", "label")
    table.only(*own, *VERBS)
    verbs = [key for key in table.values if key in VERBS]
    if len(verbs) > 1:
        raise BindingError((*table.path, verbs[1]), f"a step does one thing: it has {verbs[0]} already")
    action = None
    if verbs:
        action = Action(verbs[0], table.read(verbs[0], lambda value: read_argument(verbs[0], value)))
    if action is None and not {"at", "after", "wait"} & table.values.keys():
        raise BindingError(table.path, "the step does nothing: expected at, after, wait or an action" + near("", VERBS))
    if "within" in table.values and "wait" not in table.values and "run" not in verbs:
        raise BindingError((*table.path, "within"), "nothing to limit: expected wait or run in the same step")
    return Step(
        at=table.read("at", parse_seconds),
        after=table.read("after", parse_seconds, 0.0),
        wait=table.read("wait", _text),
        within=table.read("within", parse_seconds, Step().within),
        action=action,
        label=table.text("label", str(action.argument) if action and action.verb == "mark" else ""),
    )


_BOUNDS = {"at_least", "at_most", "equals", "same_as"}


def _expectation(table: Table) -> Expectation:
    table.only(*(field.name for field in attrs.fields(Expectation)))
    if ("metric" in table.values) == ("event" in table.values):
        raise BindingError(table.path, "expected either metric or event")
    if not _BOUNDS & table.values.keys():
        raise BindingError(table.path, "expected a bound: at_least, at_most, equals or same_as")
    for key in ("at_least", "at_most"):
        if key in table.values and "equals" in table.values:
            raise BindingError((*table.path, key), "equals is an exact bound: expected no other one beside it")
    try:
        return Expectation(
            name=table.text("name", ""),
            metric=table.read("metric", _text),
            event=table.read("event", _text),
            where=table.read("where", _mapping, {}),
            after=table.read("after", _text),
            before=table.read("before", _text),
            take=table.read("take", _one_of(TAKES), "count"),
            field=table.read("field", _text),
            at_least=table.read("at_least", Quantity.parse),
            at_most=table.read("at_most", Quantity.parse),
            equals=table.read("equals", _quantity_or_text),
            same_as=table.read("same_as", _text),
            source=table.text("source", ""),
        )
    except BindingError:
        raise
    except ValueError as exc:
        raise BindingError(table.path, str(exc.args[0])) from None


def _variant(table: Table) -> Variant:
    table.only("claim", "expect", "drop", "same")
    if "same" in table.values and len(table.values) > 1:
        raise BindingError((*table.path, "same"), "same excludes all other keys: the outcome is the same")
    return Variant(
        claim=table.text("claim", ""),
        expectations=tuple(map(_expectation, table.tables("expect"))),
        dropped=table.read("drop", _texts, ()),
        same=table.text("same", ""),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {as_written(value)}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected an array of texts, got {as_written(value)}")
    return tuple(map(_text, value))


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a table, got {as_written(value)}")
    return value


def _one_of(known: Collection[str]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in known:
            raise ValueError(f"{as_written(value)}{near(str(value), known)}")
        return str(value)

    return read


def _quantity_or_text(value: object) -> Quantity | str:
    """Return a word as it is.

    A value that begins like a number must be a quantity with a unit.
    """
    if isinstance(value, str) and not value[:1].isdigit() and not value.startswith("-"):
        return value
    return Quantity.parse(value)
