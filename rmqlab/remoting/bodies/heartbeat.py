"""Heartbeats: the groups and subscriptions of a client.

Source: broker-requests sections 0.2, 0.4, 3.1, 3.5.
"""

import enum
from typing import Any, Self

import msgspec

from rmqlab.remoting.body import Body, BodyError, name_in
from rmqlab.remoting.header import Int, Long
from rmqlab.remoting.message import java_hash

MAX_HEARTBEAT_SIZE = 4 * 2**20
"""Bytes. One with 10,000 subscriptions has 1 to 2 MB."""
MAX_TAGS = 10_000
"""Tags of one expression. Each is hashed, in every heartbeat and pull."""
MAX_TAGS_SIZE = 2**18
"""Characters of a tag expression: each tag is hashed, and other requests wait meanwhile."""
UNDATED = -(2**63)
"""The version of a subscription without one, until its receiver dates it (`ConsumerData.dated`)."""


class ConsumeType(enum.StrEnum):
    """Kind of consumer: pull or push.

    Positions in this list are the ordinals that C++ clients send.
    """

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"


class MessageModel(enum.StrEnum):
    """Whether each member of a group sees every message, or each message one member."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(enum.StrEnum):
    """The offset at which a group without offsets starts."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body, frozen=True, kw_only=True):
    """A group's subscription to one topic.

    Missing tags and codes are computed from the expression, because C++ clients omit them.
    """

    class_filter_mode: bool = False
    code_set: list[Int] = []
    """Java's hash of each tag; empty for every tag."""
    expression_type: str = "TAG"
    filter_class_source: str | None = None
    sub_string: str = "*"
    sub_version: Long = UNDATED
    """Milliseconds; the greater is the newer."""
    tags_set: list[str] = []
    topic: str

    def __post_init__(self) -> None:
        if self.code_set or self.expression_type != "TAG" or self.class_filter_mode:
            return
        tags = tags_of(self.sub_string)
        if tags:
            msgspec.structs.force_setattr(self, "tags_set", tags)
            msgspec.structs.force_setattr(self, "code_set", [java_hash(tag) for tag in tags])


def tags_of(expression: str) -> list[str]:
    """Split `TagA || TagB` into its tags.

    None for `*`, which is every tag (broker-requests section 2.3).

    ValueError for more than MAX_TAGS or MAX_TAGS_SIZE.
    """
    if expression in {"", "*"}:
        return []
    check_tags(expression)
    return [tag for part in expression.split("||") if (tag := part.strip())]


def check_tags(expression: str) -> None:
    """Raise ValueError for an expression of too many tags or characters."""
    if len(expression) > MAX_TAGS_SIZE:
        raise ValueError(f"tags of {len(expression)} characters; at most {MAX_TAGS_SIZE}")
    if expression.count("||") >= MAX_TAGS:
        raise ValueError(f"more than {MAX_TAGS} tags")


class ProducerData(Body, frozen=True, kw_only=True):
    """One producer group of a client."""

    group_name: str


class ConsumerData(Body, frozen=True, kw_only=True):
    """One consumer group of a client."""

    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    group_name: str
    message_model: MessageModel | None = None
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False

    def dated(self, now_millis: int) -> Self:
        """Return this group, with subscriptions that have no version as of now.

        Source: SubscriptionData, whose version is the time of its construction unless it is set.
        """
        if all(one.sub_version != UNDATED for one in self.subscription_data_set):
            return self
        subscriptions = [
            msgspec.structs.replace(one, sub_version=now_millis) if one.sub_version == UNDATED else one
            for one in self.subscription_data_set
        ]
        return msgspec.structs.replace(self, subscription_data_set=subscriptions)


_ORDINALS: dict[str, list[str]] = {
    "consumeFromWhere": [*ConsumeFromWhere],
    "consumeType": [*ConsumeType],
    "messageModel": [*MessageModel],
}


class HeartbeatData(Body, frozen=True, kw_only=True):
    """Request of 34."""

    client_id: str | None = msgspec.field(name="clientID", default=None)
    consumer_data_set: list[ConsumerData] = []
    producer_data_set: list[ProducerData] = []

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse a heartbeat. BodyError also for one above MAX_HEARTBEAT_SIZE."""
        if len(raw) > MAX_HEARTBEAT_SIZE:
            raise BodyError(f"a heartbeat of {len(raw)} bytes; at most {MAX_HEARTBEAT_SIZE}")
        return super().decode(raw)

    @classmethod
    def normalized(cls, value: Any) -> Any:
        """Convert ordinals to names.

        An unknown ordinal counts as missing (broker-requests#37).
        """
        if isinstance(value, dict) and isinstance(value.get("clientID"), (int, float)):
            value["clientID"] = str(value["clientID"])
        consumers = value.get("consumerDataSet") if isinstance(value, dict) else None
        for consumer in consumers if isinstance(consumers, list) else ():
            if isinstance(consumer, dict):
                for member in _ORDINALS.keys() & consumer.keys():
                    name = name_in(_ORDINALS[member], consumer.pop(member))
                    if name is not None:
                        consumer[member] = name
        return value


class CheckClientRequestBody(Body, frozen=True, kw_only=True):
    """Request of 46: check of an expression."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
