"""Errors that explain a problem and its solution to a user.

They are shown without a traceback. Spark prints the traceback of every exception of a Python data source. For these
errors it would print a screen of internal frames above the relevant line.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_CAUSED_BY = "Caused by: "


class UserError(Exception):
    """Base class of data source errors for users.

    The text is complete without a traceback.
    """


class NoPathError(UserError):
    """A path does not exist, or cannot be read.

    The text says what was expected.
    """


class NoSparkError(Exception):
    """Spark cannot be started or used.

    The text says why, and what to do.
    """


def first_cause(text: str) -> str:
    """Return the first line of a Java or Python error that contains a cause."""
    return (_causes(text) or [text])[0]


def first_and_last_cause(text: str) -> str:
    """Return the first line of a Java error with a cause, and the last such line.

    The last one is often the only one that says what to do.
    """
    causes = _causes(text) or [text]
    if len(causes) == 1 or not causes[-1].startswith(_CAUSED_BY):
        return causes[0]
    return f"{causes[0]}, caused by {causes[-1].removeprefix(_CAUSED_BY)}"


def _causes(text: str) -> list[str]:
    """Return the lines of an error with causes, or all lines if none has one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [line.removeprefix(": ") for line in lines if line.startswith((": ", _CAUSED_BY))] or lines


def without_traceback(fn: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function called by Spark: a UserError leaves it without a traceback.

    Supports generators.
    """
    if inspect.isgeneratorfunction(fn):

        @functools.wraps(fn)
        def generate(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
            try:
                yield from fn(*args, **kwargs)
            except UserError as exc:
                raise exc.with_traceback(None) from None

        return generate  # type: ignore[return-value]  # the iterator that `fn` says it gives

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return fn(*args, **kwargs)
        except UserError as exc:
            raise exc.with_traceback(None) from None

    return call
