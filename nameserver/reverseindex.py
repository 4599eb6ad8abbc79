"""An index from a key back to the values that refer to it."""

from collections.abc import Hashable
from typing import Generic, TypeVar

import attrs

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


@attrs.define(eq=False)
class ReverseIndex(Generic[K, V]):
    """Values by key, each key's in the order in which they were added."""

    _values: dict[K, dict[V, None]] = attrs.field(factory=dict, init=False)

    def add(self, key: K, value: V) -> None:
        """Add a value to a key. Does nothing if the key has it."""
        self._values.setdefault(key, {})[value] = None

    def discard(self, key: K, value: V) -> None:
        """Remove a value from a key. Does nothing if the key does not have it."""
        values = self._values.get(key)
        if values is not None:
            values.pop(value, None)
            if not values:
                del self._values[key]

    def first(self, key: K) -> V | None:
        """Return the value that the key has had longest, or None."""
        return next(iter(self._values.get(key, ())), None)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._values)
