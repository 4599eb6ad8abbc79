"""Held pulls: long polls that wait for a message to arrive (broker-requests section 2.7).

Class PullRequestHoldService. A pull is held under its topic and queue. On a master the arrival of a matching
message wakes it; on every role a sweep each 5 s looks at them all, which is the only thing that wakes one on a
slave, and the only thing that ends one whose time is over.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from broker.filter.wanted import EVERYTHING, Wanted
from remoting.dispatch import Request

SWEEP_PERIOD = 5.0
"""Seconds."""


@attrs.define(eq=False)
class HeldPull:
    """One pull that found nothing. `deadline` is in seconds of the process's clock."""

    request: Request
    header: Any
    queue_offset: int
    deadline: float
    wanted: Wanted = EVERYTHING


@attrs.define(eq=False)
class PullHold:
    """The pulls that are held, by topic and queue."""

    max_offset: Callable[[str, int], int]
    """Asks the store for a queue's end."""
    wake: Callable[[HeldPull], None] = lambda _pull: None
    """Runs a pull again, this time for an answer."""
    properties_of: Callable[[str, int, int], Mapping[str, str] | None] = lambda _topic, _queue_id, _offset: None
    """Asks the store for the properties of the message at a place of a queue."""
    _held: dict[tuple[str, int], list[HeldPull]] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def add(self, topic: str, queue_id: int, pull: HeldPull) -> None:
        """Hold a pull."""
        self._held.setdefault((topic, queue_id), []).append(pull)

    def arrived(self, topic: str, queue_id: int, queue_offset: int, tags_codes: Sequence[int]) -> None:
        """Wake the pulls that new messages, the last of their queue, are for; those that want others stay."""
        for max_offset, tags_code in enumerate(tags_codes, queue_offset + 1):
            if (topic, queue_id) not in self._held:
                break
            self._wake(topic, queue_id, max_offset, tags_code)

    def _wake(self, topic: str, queue_id: int, max_offset: int, tags_code: int) -> None:
        held, stay = self._held.pop((topic, queue_id)), []
        for pull in held:
            if pull.request.channel.is_closed:
                continue
            if max_offset > pull.queue_offset and self._is_for(pull, topic, queue_id, max_offset - 1, tags_code):
                self.wake(pull)
            else:
                stay.append(pull)
        if stay:
            self._held.setdefault((topic, queue_id), []).extend(stay)

    def _is_for(self, pull: HeldPull, topic: str, queue_id: int, offset: int, tags_code: int) -> bool:
        wanted = pull.wanted
        if wanted.by_code is not None and not wanted.by_code(tags_code):
            return False
        if wanted.by_properties is None:
            return True
        properties = self.properties_of(topic, queue_id, offset)
        return properties is None or wanted.by_properties(properties)

    def sweep(self, now: float) -> None:
        """Wake every pull whose queue has grown, whatever the tags, and every one whose time is over."""
        for (topic, queue_id), pull in list(self._drain()):
            if pull.request.channel.is_closed:
                continue
            if pull.deadline <= now or self.max_offset(topic, queue_id) > pull.queue_offset:
                self.wake(pull)
            else:
                self.add(topic, queue_id, pull)

    def _drain(self) -> Iterator[tuple[tuple[str, int], HeldPull]]:
        held, self._held = self._held, {}
        for key, pulls in held.items():
            for pull in pulls:
                yield key, pull
