"""Errors of operations: one line with the invalid and the expected value."""

import difflib
from collections.abc import Iterable

_MOST_NAMED = 8


class OperationError(Exception):
    """The operation was not done."""


class InvalidOperationError(OperationError, ValueError):
    """An argument is invalid in any state of the cluster."""


class UnknownNameError(OperationError):
    """The cluster has nothing of this name, id or offset."""


class ConflictError(OperationError):
    """The present state of the cluster excludes the operation."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown name.

    It has the near miss, or else some of the known names.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return UnknownNameError(f"unknown {kind} {name!r}; did you mean {close[0]}?")
    listed = ", ".join(names[:_MOST_NAMED]) + (f", and {len(names) - _MOST_NAMED} more" * (len(names) > _MOST_NAMED))
    return UnknownNameError(f"unknown {kind} {name!r}; {'there are: ' + listed if names else 'there are none'}")
