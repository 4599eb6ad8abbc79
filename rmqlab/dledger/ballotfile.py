"""A member's ballot on its way to the disk."""

import functools
from collections.abc import Callable

import attrs

from rmqlab.dledger.member import Ballot
from rmqlab.store.files.diskcalls import DiskCalls


@attrs.define
class BallotFile:
    """The newest ballot. The member sends nothing until it is durable."""

    write: Callable[[Ballot], None]
    """Makes a ballot durable, in a thread. OSError."""
    _unsaved: Ballot | None = None

    @property
    def is_durable(self) -> bool:
        return self._unsaved is None

    def save(self, ballot: Ballot) -> None:
        """Let a ballot replace the one before, which may not be written yet."""
        self._unsaved = ballot

    def saving(self) -> DiskCalls[None]:
        """Yield the calls that make the newest ballot durable. OSError."""
        while (ballot := self._unsaved) is not None:
            yield functools.partial(self.write, ballot)
            if self._unsaved is ballot:
                self._unsaved = None
