"""Logs repeated failures of a peer once, not at every retry."""

import logging

import attrs

_LONGEST_TEXT = 300


def short(text: object) -> str:
    """Return a peer's text for the log: quoted, escaped, and cut to a limit."""
    return repr(str(text)[:_LONGEST_TEXT])


@attrs.define(eq=False)
class FailureLog:
    """The last failure of each subject.

    A subject is a peer or a kind of request: it can fail and recover.
    """

    log: logging.Logger
    _last: dict[str, str] = attrs.field(factory=dict, init=False)

    def add(self, subject: str, text: str) -> None:
        """Log a warning, unless it is the same as the last one about this subject."""
        if self._last.get(subject) != text:
            self._last[subject] = text
            self.log.warning("%s", text)

    def recovered(self, subject: str) -> None:
        """Note a success: the next failure is logged, even with the same text."""
        self._last.pop(subject, None)
