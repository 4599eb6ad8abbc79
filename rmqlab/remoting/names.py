"""RocketMQ's built-in names of topics and groups.

Classes TopicValidator, MixAll.
"""

import functools
import re

DEFAULT_TOPIC = "TBW102"
"""Template of topics that are created on their first send."""
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"
"""Suffix, after the cluster's name, of the topic for replies to request messages."""

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
RESENT_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)
"""Prefixes of the topics to which consumers send messages back."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
SCHEDULE_GROUP = "SCHEDULE_CONSUMER"
"""Delivered messages of the schedule topic are counted for it."""
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""Its consumer offsets record the progress in half messages and op records."""

NO_SEND_TOPICS = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT}
)
"""Sends of clients to these topics fail with NO_PERMISSION (broker-requests section 1.2)."""

SYSTEM_TOPICS = NO_SEND_TOPICS | {DEFAULT_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}
SYSTEM_TOPIC_PREFIX = "rmq_sys_"

BUILT_IN_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)

MASTER_ID = 0


MAX_TOPIC_LENGTH = 127
MAX_GROUP_LENGTH = 255
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


@functools.lru_cache(4096)  # called on every send, with names of at most MAX_TOPIC_LENGTH
def unless_blank(text: str | None) -> str | None:
    """Return a text as it is; None if it is missing or has only blanks.

    Source: UtilAll.isBlank.
    """
    return text if text is not None and text.strip() else None


def _is_legal(topic: str) -> bool:
    return _LEGAL.fullmatch(topic) is not None


def topic_fault(topic: str) -> str | None:
    """Return why a topic name is invalid, or None (broker-requests#16)."""
    if not topic.strip():
        return "the topic is blank"
    if len(topic) > MAX_TOPIC_LENGTH:
        return f"the topic is {len(topic)} characters long, at most {MAX_TOPIC_LENGTH} are allowed"
    if not _is_legal(topic):
        return f"topic {topic!r} has a character other than letters, digits, %, |, _ and -"
    return None


def group_fault(group: str) -> str | None:
    """Return why a group name is invalid, or None.

    Only clients check this (class Validators).
    """
    if not group.strip():
        return "the group is blank"
    if len(group) > MAX_GROUP_LENGTH:
        return f"the group is {len(group)} characters long, at most {MAX_GROUP_LENGTH} are allowed"
    if not _LEGAL.fullmatch(group):
        return f"group {group!r} has a character other than letters, digits, %, |, _ and -"
    return None


def is_system_topic(topic: str) -> bool:
    """Return True for a topic that operators can neither create nor delete."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)
