"""Checks values of a program against declared types.

mypy reports a wrong value before a program runs. Many programs, and every notebook, run without it.
"""

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, ParamSpec, TypeAlias, TypeVar

import attrs

from rmqlab.runtime.validators import shown

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

_WORDS: Mapping[Any, str] = {
    None: "None",
    type(None): "None",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    bytes: "bytes",
}


def is_of_type(value: object, declared: Any) -> bool:
    """Return True if a value is of a declared type.

    Items of mappings and tuples must be of theirs. An int is a float, and a bool is neither of them.
    """
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        return is_of_type(value, arguments[0])
    if origin in (typing.Union, types.UnionType):
        return any(is_of_type(value, one) for one in arguments)
    if declared is Any or isinstance(declared, TypeVar | str):
        return True
    if declared is None:
        return value is None
    if isinstance(value, bool) and declared in (int, float):
        return False
    if declared is float:
        return isinstance(value, int | float)
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


def describe_type(declared: Any) -> str:
    """Return the words of messages: `a text`, `a number`, `a Fault`."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        return next((one.expected for one in arguments if isinstance(one, Range)), describe_type(arguments[0]))
    if origin in (typing.Union, types.UnionType):
        *others, last = map(describe_type, arguments)
        return f"{', '.join(others)} or {last}"
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

    An attrs field_transformer.
    """
    return [
        field.evolve(validator=attrs.validators.and_(_is_typed, *([field.validator] if field.validator else [])))
        for field in fields
    ]


def _is_typed(_instance: object, field: "attrs.Attribute[Any]", value: object) -> None:
    check_value(field.name, value, field.type)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that checks its arguments before it calls the given one.

    TypeError and ValueError name the argument and what was expected. A coroutine function raises them when it is
    awaited.
    """
    signature = inspect.signature(function)

    def check(*arguments: P.args, **keywords: P.kwargs) -> None:
        for name, value in signature.bind(*arguments, **keywords).arguments.items():
            declared = hints().get(name, Any)
            kind = signature.parameters[name].kind
            for one in value if kind is inspect.Parameter.VAR_POSITIONAL else [value]:
                if kind is not inspect.Parameter.VAR_KEYWORD:
                    check_value(name, one, declared)

    @functools.cache
    def hints() -> dict[str, Any]:
        return typing.get_type_hints(function, include_extras=True)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*arguments: P.args, **keywords: P.kwargs) -> Any:
            check(*arguments, **keywords)
            return await function(*arguments, **keywords)

        return typing.cast("Callable[P, R]", call_async)

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        check(*arguments, **keywords)
        return function(*arguments, **keywords)

    return call


def checked_methods(kind: type[T]) -> type[T]:
    """Check the arguments of all public methods of a class. A class decorator."""
    for name, member in list(vars(kind).items()):
        if inspect.isfunction(member) and (not name.startswith("_") or name == "__init__"):
            setattr(kind, name, checked(member))
    return kind
