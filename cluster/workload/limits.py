"""Limits of workloads, for their settings and for the options of their commands."""

from typing import Final

MOST_SIZE: Final = 64 * 2**20
"""Bytes of a body: more than any broker accepts by default (4 MB)."""
MOST_SENDERS: Final = 10_000
MOST_SENDS_PER_SECOND: Final = 1_000_000
