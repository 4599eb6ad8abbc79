"""Limits of what a scan of a damaged journal reads for false entries."""

import attrs

LONGEST_ENTRY = 16 * 2**20
"""Maximum bytes of an entry that readers accept: 64 times the writers' limit. Longer maps are not entries."""
MOST_ITEMS = 2**20
"""Maximum items of a map or list in an entry."""
_FREE_WASTE = 64 * 2**20
LEAST_WASTE = 2**18
"""Bytes that a false entry counts for, at least: nested lists that claim many items take long to parse."""
_SHORT_ENTRY, _FEW_ITEMS = 4 * 2**10, 64
"""The two maxima in a file of many false entries: see `Waste`."""


@attrs.define
class Waste:
    """Counts the bytes that a scan has read for false entries.

    Damaged bytes may look like the begin of a long entry every few bytes: without a limit a file of 1 MB costs a read
    of 16 MB some 50,000 times.
    """

    begin: int
    """Offset in bytes of the scan's begin."""
    size: int = 0

    def limits(self, at: int) -> tuple[int, int]:
        """Return the maximum bytes of an entry at a place, and the maximum items in it."""
        is_low = self.size <= _FREE_WASTE + 4 * (at - self.begin)
        return (LONGEST_ENTRY, MOST_ITEMS) if is_low else (_SHORT_ENTRY, _FEW_ITEMS)
