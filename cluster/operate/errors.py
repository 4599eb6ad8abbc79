"""Errors of operations: one line with the invalid and the expected value."""

from collections.abc import Iterable

from rmqlab.runtime.text.nearmiss import near_miss

_MOST_NAMED = 8


class OperationError(Exception):
    """The operation was not done."""


class InvalidOperationError(OperationError, ValueError):
    """An argument is invalid in any state of the cluster."""


class UnknownNameError(OperationError):
    """The cluster has nothing of this name, id or offset."""


class UnknownSettingError(UnknownNameError, InvalidOperationError):
    """A server has no setting of this key, in any state of the cluster."""


class ConflictError(OperationError):
    """The present state of the cluster excludes the operation."""


def unknown(kind: str, name: str, known: Iterable[str], *, of: str = "") -> UnknownNameError:
    """Return the error for an unknown name; `of` is what it belongs to.

    It has the near miss, or else some of the known names.
    """
    return UnknownNameError(_unknown_text(kind, name, known, of))


def unknown_setting(server: str, key: str, known: Iterable[str]) -> UnknownSettingError:
    """Return the error for an unknown key, as `unknown`."""
    return UnknownSettingError(_unknown_text("setting", key, known, server))


def _unknown_text(kind: str, name: str, known: Iterable[str], of: str) -> str:
    names = sorted(known)
    what = f"unknown {kind} {name!r}" + (f" of {of}" if of else "")
    if hint := near_miss(name, names):
        return f"{what}{hint}"
    listed = ", ".join(names[:_MOST_NAMED]) + (f", and {len(names) - _MOST_NAMED} more" * (len(names) > _MOST_NAMED))
    return f"{what}; {'there are: ' + listed if names else 'there are none'}"
