"""Changes of the key-value table, made in groups.

The file has up to 8 MiB and is written at every change. One write serves all changes that arrived while the write
before it ran, and it runs beside the event loop: a flood of changes does not delay heartbeats (issue 12.6).
"""

import collections
import functools
from typing import Final

import attrs

from rmqlab.nameserver.kvconfig import KvChange, KvConfig, KvDraft, KvLimitError
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.net.callthread import Caller
from rmqlab.runtime.net.dispatch import OVERLOAD, Refusal, Reply, Request

MAX_WAITING: Final = 5_000
"""Changes that wait for the write before theirs, at most."""
MAX_WAITING_CHARACTERS: Final = 2**25
"""Characters of those changes, at most."""
MAX_GROUP: Final = 1_000
"""Changes of one write, at most: their replies are sent in one pass of the event loop."""
GROUP_CHARACTERS: Final = 2**23
"""A group ends with the change that exceeds this: computing the sizes of 8 MiB takes some 10 ms."""


@attrs.define(eq=False)
class KvChanges:
    """Makes changes in their order of arrival, each saved before its reply.

    Source: remoting#37.
    """

    table: KvConfig
    _calls: Caller
    _waiting: collections.deque[tuple[KvChange, Request]] = attrs.field(factory=collections.deque, init=False)
    _characters: int = attrs.field(default=0, init=False)
    _is_busy: bool = attrs.field(default=False, init=False)

    def add(self, change: KvChange, request: Request) -> None:
        """Make a change, and reply to its request once it is saved.

        Refusal if too many others wait.
        """
        size = _characters(change)
        if len(self._waiting) >= MAX_WAITING or self._characters + size > MAX_WAITING_CHARACTERS:
            raise Refusal(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        self._waiting.append((change, request))
        self._characters += size
        self._begin()

    async def end(self) -> None:
        """Wait for the write that runs; later changes are dropped."""
        self._waiting.clear()
        await self._calls.close()

    def _begin(self) -> None:
        """Write the next group of changes, unless a write runs already."""
        while self._waiting and not self._is_busy:
            draft = self.table.draft()
            made = [request for change, request in self._next_group() if _is_made(draft, change, request)]
            if made:
                self._save(draft, made)

    def _next_group(self) -> list[tuple[KvChange, Request]]:
        group, left = list[tuple[KvChange, Request]](), GROUP_CHARACTERS
        while self._waiting and left >= 0 and len(group) < MAX_GROUP:
            group.append(self._waiting.popleft())
            left -= _characters(group[-1][0])
        self._characters -= GROUP_CHARACTERS - left
        return group

    def _save(self, draft: KvDraft, made: list[Request]) -> None:
        self._is_busy = True
        try:
            self._calls.start([draft.save], functools.partial(self._ended, draft, made))
        except (OSError, RuntimeError) as exc:  # no thread or descriptor is left
            self._ended(draft, made, OSError(str(exc)))

    def _ended(self, draft: KvDraft, made: list[Request], error: BaseException | None) -> None:
        self._is_busy = False
        if error is None:
            self.table.adopt(draft)
        for request in made:
            request.reply(Reply() if error is None else not_saved(error))
        self._begin()
        if error is not None and not isinstance(error, OSError):
            raise error  # a bug, counted by the event loop


def _is_made(draft: KvDraft, change: KvChange, request: Request) -> bool:
    """Make a change in a draft, or reply that it exceeds a limit."""
    try:
        draft.make(change)
    except KvLimitError as exc:
        request.reply(Reply(ResponseCode.SYSTEM_ERROR, remark=str(exc)))
        return False
    return True


def not_saved(error: BaseException) -> Reply:
    """Return the reply to a change that could not be saved, and was not made."""
    text = getattr(error, "strerror", None) or str(error)
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"the change is not saved: {text}")


def _characters(change: KvChange) -> int:
    return len(change.namespace or "") + len(change.key or "") + len(change.value or "")
