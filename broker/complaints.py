"""What a broker logs about peers that it asks again and again: each complaint once, not every few seconds."""

import logging

import attrs

_LONGEST_TEXT = 300


def short(text: object) -> str:
    """A peer's text for the log: quoted, without line breaks and escape sequences, and not at any length."""
    return repr(str(text)[:_LONGEST_TEXT])


@attrs.define(eq=False)
class Complaints:
    """The last complaint about each subject. A subject is what may fail and recover: a peer, a kind of request."""

    log: logging.Logger
    _last: dict[str, str] = attrs.field(factory=dict, init=False)

    def say(self, about: str, text: str) -> None:
        """Log a warning, unless it is the same as the last one about this subject."""
        if self._last.get(about) != text:
            self._last[about] = text
            self.log.warning("%s", text)

    def clear(self, about: str) -> None:
        """All is well: the next complaint is logged again, whatever it says."""
        self._last.pop(about, None)
