"""Checks values of a program against declared types.

mypy reports a wrong value before a program runs. Many programs, and every notebook, run without it.
"""

import collections.abc
import functools
import inspect
import numbers
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, ParamSpec, TypeAlias, TypeVar

import attrs

from rmqlab.runtime.config.validators import shown

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@attrs.frozen
class Range:
    """Metadata of an annotated type: its valid values, and their description."""

    holds: Callable[[Any], bool]
    expected: str


MOST_WAIT: Final = 10**9
Seconds: TypeAlias = Annotated[
    float, Range(lambda value: 0 <= value <= MOST_WAIT, "a number of seconds from 0 to 10**9")
]
"""A duration. Negative and infinite ones, and NaN, are invalid: every wait has a limit."""
TimeLimit: TypeAlias = Annotated[
    float, Range(lambda value: 0 < value <= MOST_WAIT, "a number of seconds above 0, at most 10**9")
]
"""As Seconds, for requests: none can be served within 0 seconds."""
Offset: TypeAlias = Annotated[int, Range(lambda value: 0 <= value < 2**63, "an offset from 0 to 2^63 - 1")]
"""A place in a queue."""

_PLAIN: Final = frozenset({int, float, str, bytes, bool, type(None)})
_WORDS: Mapping[Any, str] = {
    None: "None",
    type(None): "None",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    bytes: "bytes",
    collections.abc.Callable: "a function",
    collections.abc.Sequence: "a list",
}


def is_of_type(value: object, declared: Any) -> bool:
    """Return True if a value is of a declared type.

    Items of mappings and tuples must be of theirs. Numbers of other packages, such as NumPy's, are numbers. An int is
    a float, and a bool is neither of them.
    """
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        return is_of_type(value, arguments[0])
    if origin in (typing.Union, types.UnionType):
        return any(is_of_type(value, one) for one in arguments)
    if origin is typing.Literal:
        return any(type(value) is type(one) and value == one for one in arguments)
    if declared is Any or isinstance(declared, TypeVar | str):
        return True
    if declared is None:
        return value is None
    if declared in (int, float):
        return _as_number(value, declared) is not None
    if typing.is_typeddict(declared):
        return _has_members_of(value, declared)
    if origin is collections.abc.Mapping:
        keys, values = arguments
        return isinstance(value, Mapping) and all(
            is_of_type(key, keys) and is_of_type(one, values) for key, one in value.items()
        )
    if getattr(declared, "_is_protocol", False):
        return True  # what a class has that fits a protocol is up to mypy
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return isinstance(value, tuple) and all(is_of_type(one, arguments[0]) for one in value)
    return isinstance(value, origin or declared)


def plain(value: Any, declared: Any) -> Any:
    """Return a number of another package as an int or float.

    Any other value is returned as it is. JSON and RocketMQ's headers are written of ints and floats only.
    """
    if value.__class__ in _PLAIN:
        return value
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        return plain(value, arguments[0])
    wanted = arguments if origin in (typing.Union, types.UnionType) else (declared,)
    numbers_of = (_as_number(value, kind) for kind in (int, float) if kind in wanted)
    return next((number for number in numbers_of if number is not None), value)


def _as_number(value: object, kind: type[int | float]) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # TypeError without __index__
    except TypeError:
        return float(value) if kind is float and isinstance(value, numbers.Real) else None


def _has_members_of(value: object, declared: Any) -> bool:
    """Return True for a dict with the members of a TypedDict, and no others."""
    types_of = typing.get_type_hints(declared)
    return (
        isinstance(value, dict)
        and declared.__required_keys__ <= value.keys() <= types_of.keys()
        and all(is_of_type(one, types_of[key]) for key, one in value.items())
    )


def describe_type(declared: Any) -> str:
    """Return the words of messages: `a text`, `a number`, `a Fault`."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        return next((one.expected for one in arguments if isinstance(one, Range)), describe_type(arguments[0]))
    if origin in (typing.Union, types.UnionType):
        return _alternatives(map(describe_type, arguments))
    if origin is typing.Literal:
        return _alternatives(map(repr, arguments))
    if origin is collections.abc.Callable:
        return "a function"
    if origin is collections.abc.Mapping:
        key, value = (_plural(one) for one in arguments)
        return f"a mapping of {key} to {value}"
    if origin is tuple:
        return f"a tuple of {_plural(arguments[0])}"
    if declared in _WORDS:
        return _WORDS[declared]
    name = (origin or declared).__name__
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def _alternatives(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _plural(declared: Any) -> str:
    if declared is Any:
        return "values"
    if typing.get_origin(declared) in (typing.Union, types.UnionType):
        return " or ".join(map(_plural, typing.get_args(declared)))
    if typing.get_origin(declared) is collections.abc.Mapping:
        return "mappings"
    return f"{describe_type(declared).partition(' ')[2]}s"


def check_value(name: str, value: object, declared: Any) -> None:
    """Check a value against its declared type.

    TypeError for another type, ValueError for a value beyond its range.
    """
    if not is_of_type(value, declared):
        raise TypeError(f"{name} = {shown(value)}: expected {describe_type(declared)}")
    if typing.get_origin(declared) is Annotated:
        for limit in typing.get_args(declared):
            if isinstance(limit, Range) and not limit.holds(value):
                raise ValueError(f"{name} = {shown(value)}: expected {limit.expected}")


def typed_fields(_kind: type[Any], fields: "list[attrs.Attribute[Any]]") -> "list[attrs.Attribute[Any]]":
    """Check the types of all fields before their own validators.

    An attrs field_transformer. Numbers of other packages become ints and floats.
    """
    return [
        field.evolve(
            converter=field.converter or _converter_to(field.type),
            validator=attrs.validators.and_(_is_typed, *([field.validator] if field.validator else [])),
        )
        for field in fields
    ]


def _converter_to(declared: Any) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        return plain(value, declared)

    convert.__annotations__["value"] = declared  # attrs annotates __init__ with it, which `help` shows
    return convert


def _is_typed(_instance: object, field: "attrs.Attribute[Any]", value: object) -> None:
    check_value(field.name, value, field.type)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that checks its arguments before it calls the given one.

    Numbers of other packages become ints and floats. TypeError and ValueError name the argument and what was expected.
    A coroutine function raises them when it is awaited.
    """
    signature = inspect.signature(function)

    def check(*arguments: P.args, **keywords: P.kwargs) -> inspect.BoundArguments:
        bound = signature.bind(*arguments, **keywords)
        for name, value in bound.arguments.items():
            declared, kind = hints().get(name, Any), signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                continue
            several = kind is inspect.Parameter.VAR_POSITIONAL
            for one in value if several else (value,):
                check_value(name, one, declared)
            bound.arguments[name] = tuple(plain(one, declared) for one in value) if several else plain(value, declared)
        return bound

    @functools.cache
    def hints() -> dict[str, Any]:
        return typing.get_type_hints(function, include_extras=True)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*arguments: P.args, **keywords: P.kwargs) -> Any:
            bound = check(*arguments, **keywords)
            return await function(*bound.args, **bound.kwargs)

        return typing.cast("Callable[P, R]", call_async)

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        bound = check(*arguments, **keywords)
        return function(*bound.args, **bound.kwargs)

    return call


def checked_methods(kind: type[T]) -> type[T]:
    """Check the arguments of all public methods of a class. A class decorator."""
    for name, member in list(vars(kind).items()):
        if inspect.isfunction(member) and (not name.startswith("_") or name == "__init__"):
            setattr(kind, name, checked(member))
    return kind
