"""Errors that tell a user what is wrong and what to do: shown without the way through our code that led to them.

Spark prints the traceback of whatever a Python data source raises. For these it would be a screen of frames, of ours
and of libraries, above the one line that counts.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class UserError(Exception):
    """Root of the errors of data sources that are a user's business. The text says all there is to say."""


def without_traceback(fn: Callable[P, T]) -> Callable[P, T]:
    """Decorate what Spark calls: a UserError leaves it without a traceback. Generators are decorated as such."""
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
