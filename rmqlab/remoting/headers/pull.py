"""Headers of pulls (broker-requests sections 2.1, 2.5)."""

from typing import ClassVar

from rmqlab.remoting.header import Header, Int, Long

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION = 1, 2, 4
"""Bits of a pull's sysFlag: it commits an offset, it may be held, it carries its subscription."""


class PullMessageRequestHeader(Header, frozen=True, kw_only=True):
    """11, and 361 of lite pull consumers of 5.x."""

    is_strict: ClassVar[bool] = True

    consumer_group: str
    topic: str
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    """Bits: 1 commit offset, 2 suspend, 4 subscription, 8 class filter, 16 lite pull."""
    commit_offset: Long | None = None
    """Required with bit 1."""
    suspend_timeout_millis: Long | None = None
    """Required with bit 2."""
    subscription: str | None = None
    sub_version: Long | None = None
    """Required without bit 4."""
    expression_type: str | None = None
    """None is TAG (broker-requests#30)."""


class PullMessageResponseHeader(Header, frozen=True, kw_only=True):
    """11 and 361: the response has all four fields with codes 0, 19, 20 and 21.

    With other codes it has no fields (broker-requests#26).
    """

    is_strict: ClassVar[bool] = True

    suggest_which_broker_id: int | None = None
    next_begin_offset: int | None = None
    min_offset: int | None = None
    max_offset: int | None = None
