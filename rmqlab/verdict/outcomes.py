"""Outcomes of a send, as a producer's journal records them."""

from typing import Final

STORED: Final = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
"""Acknowledged: the broker has stored the message, though perhaps not as safely as was asked for."""

INDETERMINATE: Final = "indeterminate"
"""The message may or may not be stored."""
REFUSED: Final = "refused"
"""The message is certainly not stored."""

OUTCOMES: Final = (*STORED, INDETERMINATE, REFUSED)
"""All outcomes."""
