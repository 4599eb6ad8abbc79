"""The boundary of the Python API: the checks of all its methods."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from rmqlab.runtime.config.valuetypes import checked

T = TypeVar("T")


class ClusterClosedError(Exception):
    """The cluster does not run.

    It has not been started, is about to stop, or has stopped.
    """


def is_in_trio() -> bool:
    """Return True in a task of trio."""
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def api_methods(kind: type[T]) -> type[T]:
    """Check the calls of all public methods of a class. A class decorator.

    TypeError for an argument of a wrong type, ValueError for one that no call accepts; both name it. A coroutine
    function raises ClusterClosedError if the `supervisor` of its object is stopping or has stopped.
    """
    for name, member in list(vars(kind).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            method = checked(member)
            setattr(kind, name, _while_open(method) if inspect.iscoroutinefunction(member) else method)
    return kind


def _while_open(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    async def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if self.supervisor.is_stopping:
            raise ClusterClosedError(f"cluster {self.supervisor.spec.name} has stopped: expected a call while it runs")
        return await method(self, *arguments, **keywords)

    return call
