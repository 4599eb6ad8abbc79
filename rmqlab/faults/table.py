"""A table of the kinds of faults: converts plain values to faults and back."""

import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from rmqlab.faults.specification import Fault, FaultError, flag_of, is_required, limit_problem, number_text
from rmqlab.runtime.config.validators import as_written
from rmqlab.runtime.config.valuetypes import is_of_type
from rmqlab.runtime.text.nearmiss import near_miss

if TYPE_CHECKING:
    from cattrs import Converter

Field: TypeAlias = "attrs.Attribute[Any]"

_TYPES: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a text"),
    str | None: ((str,), "a text"),
    int: ((int,), "a whole number"),
    int | None: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    float | None: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
}


@attrs.frozen
class Family:
    """Kinds of faults with one name and common values, such as all link faults."""

    name: str
    base: type[Fault]
    kinds: Mapping[str, type[Fault]]
    """By name; a family of one kind has the empty name."""

    @property
    def has_kinds(self) -> bool:
        """True if a fault of this family names its kind."""
        return "" not in self.kinds

    @property
    def fields(self) -> dict[str, Field]:
        """The options of all kinds: those of the family first, then those of each kind."""
        fields: dict[str, Field] = attrs.fields_dict(self.base)
        for cls in self.kinds.values():
            fields |= own_fields(cls)
        return fields

    @property
    def keys(self) -> list[str]:
        """Members of a fault's values besides `type`."""
        return ["kind", *self.fields] if self.has_kinds else [*self.fields]

    def own_fields(self, name: str) -> dict[str, Field]:
        """The option of this name of each kind that declares it itself, by kind.

        Empty for an option of the family.
        """
        found = {kind: own_fields(cls).get(name) for kind, cls in self.kinds.items()}
        return {kind: field for kind, field in found.items() if field is not None}

    def kind_of(self, given: Mapping[str, Any]) -> type[Fault]:
        """Return the class that the values name. FaultError if they name none."""
        if not self.has_kinds:
            return self.base
        kind = given.get("kind", self.base.default_kind)
        if not kind:
            raise FaultError(f"{self.name}: needs a kind: expected one of {', '.join(self.kinds)}")
        if not isinstance(kind, str) or kind not in self.kinds:
            expected = f"expected one of {', '.join(self.kinds)}{near_miss(str(kind), self.kinds)}"
            raise FaultError(f"{self.name}: kind = {as_written(kind)}: {expected}")
        return self.kinds[kind]

    def check(self, cls: type[Fault], given: Mapping[str, Any]) -> None:
        """Raise FaultError for unknown, missing, misplaced or wrongly typed values.

        A misplaced value belongs to another kind.
        """
        fields, own = attrs.fields_dict(cls), own_fields(cls)
        for key in given:
            if key not in self.keys:
                known = f"it takes {', '.join(self.keys)}{near_miss(key, self.keys)}"
                raise FaultError(f"{self.name}: no key {as_written(key)}: {known}")
            if key != "kind" and key not in fields:
                hint = f"it takes {', '.join(own)}" if own else "it takes no options"
                raise FaultError(f"{self.name}: kind {cls.kind} has no value {key}; {hint}")
        for key, field in fields.items():
            if is_required(field) and key not in given:
                raise FaultError(f"{self.name}: {f'kind {cls.kind} ' if key in own else ''}needs {key}")
            if key in given:
                _check_type(self.name, field, given[key])


class FaultTable:
    """The kinds of faults, by family.

    ValueError if two have one name, or options of one name but of two types.
    """

    def __init__(self, kinds: Iterable[type[Fault]]) -> None:
        self.kinds = tuple(kinds)
        self.families: dict[str, Family] = {}
        for cls in self.kinds:
            family = self.families.get(cls.family, Family(cls.family, family_of(cls), {}))
            _check_new(family, cls)
            self.families[cls.family] = attrs.evolve(family, kinds={**family.kinds, cls.kind: cls})

    def fault_of(self, values: Mapping[str, Any]) -> Fault:
        """Return the fault of plain values, such as `{"type": "link", "kind": "reset"}`.

        FaultError names the invalid value, and the expected one.
        """
        if not is_of_type(values, Mapping[str, Any]):
            raise TypeError(
                f'{as_written(values)}: expected the values of a fault, such as {{"type": "isolate", "target": "broker-a"}}'
            )
        given = {key: value for key, value in values.items() if value is not None}
        name = given.pop("type", None)
        if not isinstance(name, str) or name not in self.families:
            expected = f"expected one of {', '.join(self.families)}{near_miss(str(name), self.families)}"
            raise FaultError(
                f"a fault needs a type: {expected}" if name is None else f"no fault {as_written(name)}: {expected}"
            )
        family = self.families[name]
        cls = family.kind_of(given)
        family.check(cls, given)
        given.pop("kind", None)
        fault: Fault = _converter().structure(given, cls)
        return fault


@functools.cache
def _converter() -> "Converter":
    from cattrs import Converter  # noqa: PLC0415 -- most nodes never have a fault

    return Converter(forbid_extra_keys=True, detailed_validation=False)


def _check_new(family: Family, cls: type[Fault]) -> None:
    if cls.kind in family.kinds:
        raise ValueError(f"two kinds of fault are named {title_of(cls)!r}")
    for name, field in own_fields(cls).items():
        if any(
            (other.type, flag_of(other)) != (field.type, flag_of(field)) for other in family.own_fields(name).values()
        ):
            raise ValueError(f"{title_of(cls)}: {name} has another type or flag in another kind")


def family_of(cls: type[Fault]) -> type[Fault]:
    """Return the class that has the options of all kinds of its family."""
    return next(base for base in reversed(cls.__mro__) if "family" in vars(base) and base is not Fault)


def own_fields(cls: type[Fault]) -> dict[str, Field]:
    """The options of a kind that its family does not have."""
    common = attrs.fields_dict(family_of(cls))
    return {name: field for name, field in attrs.fields_dict(cls).items() if name not in common}


def title_of(cls: type[Fault]) -> str:
    """`link: reset`; `isolate` for the only kind of a family."""
    return f"{cls.family}: {cls.kind}" if cls.kind else cls.family


def summary_of(cls: type[Fault]) -> str:
    """Return the first line of a class's docstring."""
    return description_of(cls).partition("\n")[0]


def description_of(cls: type[Fault]) -> str:
    """Return the docstring of a class without indentation."""
    return inspect.cleandoc(cls.__doc__ or "")


def fault_values(fault: Fault) -> dict[str, Any]:
    """Return the given plain values of a fault: the reverse of `FaultTable.fault_of`."""
    given = {key: value for key, value in attrs.asdict(fault).items() if value is not None and value is not False}
    kind = {"kind": fault.kind} if fault.kind else {}
    return {"type": fault.family, **kind, **given}


def targets_of(fault: Fault) -> tuple[str, ...]:
    """The targets that a fault names."""
    return fault.targets


def describe_fault(values: Mapping[str, Any]) -> str:
    """Return a line such as `link broker-a -> broker-a-s latency only=ha millis=200`."""
    words = [str(values["type"])]
    if "src" in values:
        words.append(f"{values['src']} {'<->' if values.get('both_ways') else '->'} {values['dst']}")
    else:
        words.append(str(values["target"]))
    words += [str(values["kind"])] if "kind" in values else []
    words += [_described(key, value) for key, value in values.items() if key not in _POSITIONAL]
    return " ".join(words)


def _described(key: str, value: object) -> str:
    if value is True:
        return key
    return f"{key}={number_text(value) if isinstance(value, float) else value}"


_POSITIONAL = {"type", "id", "src", "dst", "both_ways", "target", "kind", "applied_at"}


def _check_type(family: str, field: Field, value: object) -> None:
    key, (types, words) = field.name, _TYPES[field.type]
    if field.converter is not None:  # to a text, such as that of a request code
        types = (*types, int)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise FaultError(f"{family}: {key} = {as_written(value)}: expected {words}")
    if problem := limit_problem(value):  # before a conversion that raises OverflowError
        raise FaultError(f"{family}: {key} = {as_written(value)}: expected {problem}")
