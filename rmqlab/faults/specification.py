"""Declarations of each fault: name, options with units and bounds, example.

Command-line options, keys of scenario files, error messages and `docs/faults.md` are made from these declarations.
"""

import abc
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

import attrs

from rmqlab.runtime.config.validators import MOST_SECONDS, as_written
from rmqlab.runtime.config.valuetypes import describe_type, is_of_type
from rmqlab.runtime.text.nearmiss import near_miss
from rmqlab.runtime.text.number_text import plain

_OPTION: Final = "rmqlab.option"
LIMIT: Final = 2**63
"""Bound of all numbers. Faults are sent as msgpack, which has no larger integers, and printed as JSON, which has
neither infinity nor NaN."""
_LONGEST_MILLIS: Final = MOST_SECONDS * 1000
"""Bound of times that declare none: threads and the kernel reject longer waits."""


class FaultError(ValueError):
    """The values describe no fault.

    The text names the invalid and the expected value.
    """


def limit_problem(value: object) -> str:
    """Return the expected range for a number beyond `LIMIT`, or an empty text."""
    if isinstance(value, float) and math.isnan(value):
        return "a number"
    return "a number below 2**63" if isinstance(value, (int, float)) and not abs(value) < LIMIT else ""


def number_text(number: float) -> str:
    """Return a number without `.0` and without an exponent where it is whole."""
    return str(int(number)) if number == int(number) else f"{number:g}"


@attrs.frozen(kw_only=True)
class Option:
    """Metadata of one value of a fault, besides its name and type."""

    help: str
    unit: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    unless_given: object = None
    """The default value, as help texts show it."""
    flag: str = ""
    """The option of the command line, if it is not the name with dashes."""
    is_argument: bool = False
    """True for a positional argument of the command line."""

    def problem(self, value: Any) -> str:
        """Return the expected value, or an empty text if the value is valid."""
        if problem := limit_problem(value):
            return problem
        if self.choices and value not in self.choices:
            return f"one of {', '.join(self.choices)}{near_miss(str(value), self.choices)}"
        if self.least is not None and value < self.least:
            return f"at least {number_text(self.least)}"
        if self.above is not None and value <= self.above:
            return f"more than {number_text(self.above)}"
        most = _LONGEST_MILLIS if self.most is None and self.unit == "ms" else self.most
        if most is not None and value > most:
            return f"at most {number_text(most)}"
        return ""


def option(help: str, *, default: Any = attrs.NOTHING, converter: Any = None, **more: Any) -> Any:  # noqa: A002 -- its name everywhere
    """Declare a value of a fault, required unless it has a default.

    `more` are fields of `Option`.
    """
    metadata = {_OPTION: Option(help=help, **more)}
    return attrs.field(default=default, converter=converter, validator=_check, metadata=metadata)


def option_of(field: "attrs.Attribute[Any]") -> Option:
    """Return the declaration of a field made by `option`."""
    declared: Option = field.metadata[_OPTION]
    return declared


def is_required(field: "attrs.Attribute[Any]") -> bool:
    """True for a value without default."""
    return field.default is attrs.NOTHING


def meaning_of(field: "attrs.Attribute[Any]") -> str:
    """Describe a value: meaning, valid values, and the default in brackets."""
    option = option_of(field)
    unless_given = option.unless_given
    if unless_given is None and not is_required(field) and field.default is not False:
        unless_given = field.default
    choices = f" One of {', '.join(option.choices)}." if option.choices else ""
    return f"{option.help}{choices}" + ("" if unless_given is None else f" [{unless_given}]")


def flag_of(field: "attrs.Attribute[Any]") -> str:
    """Return the option of the command line for a value: `--jitter`."""
    return option_of(field).flag or f"--{field.name.replace('_', '-')}"


def _check(fault: "Fault", field: "attrs.Attribute[Any]", value: Any) -> None:
    if not is_of_type(value, field.type):
        raise FaultError(f"{fault.family}: {field.name} = {as_written(value)}: expected {describe_type(field.type)}")
    if value is None:
        return
    if problem := option_of(field).problem(value):
        text = plain(value) if isinstance(value, float) else as_written(value)
        raise FaultError(f"{fault.family}: {field.name} = {text}: expected {problem}")


@attrs.frozen(kw_only=True)
class Fault(abc.ABC):
    """A fault as a value. Times are milliseconds of the cluster's clock.

    A direct subclass is a family, such as all link faults; its subclasses are the kinds. A family of one kind has no
    subclasses. The docstring of a kind is its entry in `docs/faults.md`, and the first line is its help text.
    """

    family: ClassVar[str]
    kind: ClassVar[str] = ""
    """Empty for the only kind of a family."""
    default_kind: ClassVar[str] = ""
    """The default kind of this family; empty if the kind is required."""
    example: ClassVar[Mapping[str, object]]
    """Values of one fault of this kind, without `type` and `kind`: shown in `docs/faults.md` as a command."""
    is_brokers_only: ClassVar[bool] = False
    has_own_command: ClassVar[bool] = False
    """True for `rmqlab FAMILY ...`, instead of `rmqlab fault FAMILY ...`."""

    @property
    @abc.abstractmethod
    def targets(self) -> tuple[str, ...]:
        """The nodes and roles that it names."""

    @property
    def ends_by_itself(self) -> bool:
        """True if it may end before it is healed."""
        return False


@attrs.frozen(kw_only=True)
class TargetedFault(Fault):
    """A fault of one node, or of each node of a role."""

    target: str = option("A node, a role such as broker-a:slave, or several: broker-a:*,broker-b-s.", is_argument=True)

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.target,)


class TargetNode(Protocol):
    """Facts about a target, for faults that the supervisor plays."""

    @property
    def host(self) -> str:
        """Its IP address."""

    @property
    def ha_port(self) -> int | None:
        """The port where it serves slaves; None for a node that does not."""


class CannotPlayError(Exception):
    """The supervisor cannot play a fault at its targets. The text says why."""


@attrs.frozen(kw_only=True)
class SupervisorFault(TargetedFault):
    """A fault that the supervisor plays itself: nodes get no rule for it."""

    @property
    def ends_by_itself(self) -> bool:
        return True

    @abc.abstractmethod
    async def start(self, nodes: Sequence[TargetNode], rate: float) -> Callable[[], Awaitable[str]]:
        """Start playing. CannotPlayError if that is impossible.

        Returns a function that plays until cancelled; if the fault ends by itself, it returns the reason. `rate`:
        seconds of the cluster's clock per second of this process.
        """
