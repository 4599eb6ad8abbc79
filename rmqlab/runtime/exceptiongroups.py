"""Exceptions of nurseries: trio raises them in groups of groups."""

from collections.abc import Iterator
from typing import TypeVar

_Raised = TypeVar("_Raised", bound=BaseException)


def leaves(group: BaseExceptionGroup[_Raised]) -> Iterator[_Raised]:
    """Yield the exceptions of a group and of its nested groups."""
    for exc in group.exceptions:
        if isinstance(exc, BaseExceptionGroup):
            yield from leaves(exc)
        else:
            yield exc
