"""Our requests of a connection that have no response yet."""

from collections.abc import Callable

from rmqlab.remoting.command import Command
from rmqlab.runtime.boundary import InternalErrors

OnReply = Callable[[Command | None], None]
"""Receives a response, or None if the connection closed first."""


class OpenRequests:
    """Numbers the requests of a connection, and keeps their callbacks.

    The number is the `opaque` of a request: a response has that of its request.
    """

    __slots__ = ("_last", "callbacks")

    def __init__(self) -> None:
        self.callbacks: dict[int, OnReply] = {}
        """By number."""
        self._last = 0

    def next_opaque(self) -> int:
        """Return the number of the next request."""
        self._last = (self._last + 1) & 0x7FFFFFFF  # wraps: 32 bits on the wire
        return self._last

    def fail_all(self, errors: InternalErrors) -> None:
        """Call all back with None, because their connection is closed."""
        lost, self.callbacks = self.callbacks, {}
        for on_reply in lost.values():
            errors.call("lost reply", on_reply, None)
