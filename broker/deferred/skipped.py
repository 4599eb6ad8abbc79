"""Stored messages that a service of the broker skips as unusable.

The broker reads delayed messages, half messages and op records again later, with properties and bodies that clients
choose. RocketMQ 4.9.8 retries an unusable one endlessly and handles no later message (issue 12.3, 12.4). Here it is
skipped, logged at a limited rate, and reported as the event `message_skipped`.
"""

import collections
import logging
from collections.abc import Callable

import attrs

from rmqlab.runtime.boundary import InternalErrors

log = logging.getLogger(__name__)

_LONGEST_REASON = 300


def _keep_silent(_kind: str, **_fields: object) -> None:
    pass


@attrs.define(eq=False)
class SkippedMessages:
    """Counts skipped messages by service.

    Logs the 1st, 10th, 100th, ... of each service.
    """

    emit: Callable[..., None] = _keep_silent
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    counts: collections.Counter[str] = attrs.field(factory=collections.Counter)

    def note(self, service: str, physical_offset: int, reason: str) -> None:
        """Record a skipped message.

        It stays in the commit log at `physical_offset`.
        """
        self.counts[service] += 1
        count = self.counts[service]
        reason = reason[:_LONGEST_REASON]
        if str(count).strip("0") == "1":
            log.error("%s: skipped the message at %d (number %d): %s", service, physical_offset, count, reason)
        self.emit("message_skipped", service=service, offset=physical_offset, reason=reason, count=count)

    def caught(self, service: str, physical_offset: int, exc: Exception) -> None:
        """Record a message whose handling raised an unexpected exception.

        Raises a FatalError again.
        """
        self.errors.caught(service, exc, f"the message at {physical_offset}")
        self.note(service, physical_offset, f"internal error: {type(exc).__name__}: {exc}")
