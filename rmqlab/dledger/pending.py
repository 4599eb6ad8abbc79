"""APPENDs of a leader to one peer without response, in entries and bytes."""

from typing import Final

import attrs

MOST_PENDING: Final = 1000
"""APPENDs without response (dledger#34)."""
MOST_PENDING_BYTES: Final = 32 * 2**20
"""Bytes of their entries, from which on no other is sent. DLedger has no such limit: 1000 entries may be 4 GB."""


@attrs.frozen
class Sent:
    """An APPEND without response."""

    at: int
    count: int
    """Entries in it."""
    size: int
    """Bytes of its entries."""


@attrs.define
class Pending:
    """APPENDs without response, by the index of their first entry."""

    sent: dict[int, Sent] = attrs.field(factory=dict)
    size: int = 0
    """Bytes of all of them."""

    @property
    def is_full(self) -> bool:
        """True if no other APPEND may be sent."""
        return len(self.sent) >= MOST_PENDING or self.size >= MOST_PENDING_BYTES

    def add(self, first: int, sent: Sent) -> None:
        """Count an APPEND. Repetitions count once."""
        self.remove(first)
        self.sent[first] = sent
        self.size += sent.size

    def remove(self, first: int) -> None:
        """Forget an APPEND, if it is known."""
        if (known := self.sent.pop(first, None)) is not None:
            self.size -= known.size

    def remove_stored(self, watermark: int) -> None:
        """Forget those whose entries the peer has, up to the index `watermark`."""
        for first in [first for first, sent in self.sent.items() if first + sent.count <= watermark]:
            self.remove(first)

    def clear(self) -> None:
        """Forget all."""
        self.sent.clear()
        self.size = 0
