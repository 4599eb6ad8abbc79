"""Bytes on their way to a peer, in the buffers in which they came.

No I/O but one call of a transport.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqlab.runtime.net.dispatch import Buffer
    from rmqlab.runtime.net.fault_hooks import Transport

_JOIN_BELOW = 128 * 1024
"""Fewer bytes than these are joined: a copy costs less than a call with many buffers."""
_MOST_BUFFERS = 512
"""Of one call; the system allows 1,024 (IOV_MAX)."""


class SendBuffer:
    """Buffers in the order of their bytes. The first may have been sent in part."""

    __slots__ = ("_skip", "buffers")

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self._skip = 0  # bytes of the first buffer that are already sent

    def unsent(self) -> int:
        """Return the number of unsent bytes."""
        return sum(map(len, self.buffers)) - self._skip

    def send(self, transport: "Transport") -> int:
        """Pass buffers to the transport once, and return how many bytes it took.

        There must be some. Raises BlockingIOError if it takes none now, OSError if the connection is broken.
        """
        buffers = self.buffers
        if len(buffers) > 1 and sum(map(len, buffers)) < _JOIN_BELOW:
            buffers[:] = [b"".join(buffers)]
        passed = buffers[:_MOST_BUFFERS]
        if self._skip:
            passed[0] = memoryview(buffers[0])[self._skip :]
        sent = transport.sendmsg(passed) if len(passed) > 1 else transport.send(passed[0])
        self._drop(sent + self._skip)
        return sent

    def _drop(self, count: int) -> None:
        """Drop whole buffers from the front, as far as this many bytes go."""
        done = 0
        for buffer in self.buffers:
            size = len(buffer)
            if count < size:
                break
            count -= size
            done += 1
        del self.buffers[:done]
        self._skip = count

    def own(self, copied: Callable[[memoryview], bytes]) -> None:
        """Replace views by copies, at the end of a pass.

        The memory of a view may be freed afterwards, or its file truncated.
        """
        self.buffers[:] = [copied(one) if isinstance(one, memoryview) else one for one in self.buffers]
