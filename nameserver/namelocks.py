"""Serves the registrations of one broker name one after the other."""

import contextlib
from collections.abc import Callable, Iterator

import attrs


@attrs.define(eq=False)
class NameLocks:
    """A lock for each broker name, in order of arrival.

    4.9 has one lock for all names.

    The first slice of a request runs when it arrives, and the next ones once all earlier requests are served (see
    Slices). So a request has to wait for its lock from its first unit on: behind one that arrived later, it would wait
    for ever.
    """

    _waiting: dict[str, list[object]] = attrs.field(factory=dict, init=False)
    """By broker name. The first one has the lock."""

    @contextlib.contextmanager
    def wait_for(self, name: str) -> Iterator[Callable[[], bool]]:
        """Wait for a lock; yields a function that returns True once the caller has it.

        The lock is released at the end of the block.
        """
        ticket, waiting = object(), self._waiting.setdefault(name, [])
        waiting.append(ticket)
        try:
            yield lambda: waiting[0] is ticket
        finally:
            waiting.remove(ticket)
            if not waiting:
                del self._waiting[name]
