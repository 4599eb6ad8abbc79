"""The message property `MIN_COPIES`: the number of logs that must have a message.

A property of ours: with fewer copies the send is not SEND_OK. Brokers of RocketMQ store it and ignore it. Counted as
`in_sync_replicas`, the master's log included, so 2 means one slave.
"""

import re
from collections.abc import Mapping
from typing import Final

PROPERTY_MIN_COPIES: Final = "MIN_COPIES"
MAX_MIN_COPIES: Final = 999_999_999
_NUMBER: Final = re.compile(r"0*[1-9][0-9]{0,8}")
_SHOWN: Final = 20


def min_copies_of(properties: Mapping[str, str]) -> int:
    """Return the number of logs that a message demands; 0 without the property.

    ValueError for a value that is not a whole number from 1 to MAX_MIN_COPIES, in ASCII digits.
    """
    text = properties.get(PROPERTY_MIN_COPIES)
    if text is None:
        return 0
    if not _NUMBER.fullmatch(text):
        raise ValueError(
            f"{PROPERTY_MIN_COPIES} is {text[:_SHOWN]!r}: expected the number of logs that must have the message,"
            " 1 or more, the master's included"
        )
    return int(text)
