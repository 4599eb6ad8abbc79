"""Fields of the endpoints for operators.

The operations check values that the schemas cannot describe, with more detailed errors.
"""

from typing import Annotated, Literal

import msgspec

from rmqlab.cluster.control.inputs import GROUP_SCHEMA, MOST_FIELDS, TOPIC_SCHEMA, Name, Settings
from rmqlab.cluster.operate.values import MAX_QUEUES
from rmqlab.runtime.config.validators import INT32, INT64

MOST_MESSAGES = 32
"""Messages in one response: each can have some MB."""

_Topic = Annotated[str, msgspec.Meta(extra_json_schema=TOPIC_SCHEMA)]
_Group = Annotated[str, msgspec.Meta(extra_json_schema=GROUP_SCHEMA)]
_OfTopic = Annotated[_Topic | None, msgspec.Meta(description="Only of this topic.")]
_Queues = Annotated[int, msgspec.Meta(ge=1, le=MAX_QUEUES)]
_Permission = Annotated[int, msgspec.Meta(ge=0, le=7)] | Literal["rw", "r", "w", "none"]
_Brokers = Annotated[
    list[Name], msgspec.Meta(max_length=MOST_FIELDS, description="Only at these broker names; all if empty.")
]
_Count32 = Annotated[int, msgspec.Meta(ge=0, le=INT32)]
_Count64 = Annotated[int, msgspec.Meta(ge=0, le=INT64)]
_Time = Annotated[
    _Count64 | Annotated[str, msgspec.Meta(min_length=1, max_length=64)],
    msgspec.Meta(description="first, now, -10m, an ISO time, or ms since 1970."),
]
_TextTime = Annotated[
    str, msgspec.Meta(min_length=1, max_length=64, description="first, now, -10m, an ISO time, or ms since 1970.")
]
_Copy = Annotated[str, msgspec.Meta(max_length=255, description="Read this copy: broker-a:slave, broker-a-s.")]
_Key = Annotated[str, msgspec.Meta(min_length=1, max_length=32_767)]
_NumberOfMessages = Annotated[int, msgspec.Meta(ge=1, le=MOST_MESSAGES)]


class Listing(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which topics or groups to return."""

    all: Annotated[bool, msgspec.Meta(description="As `--all`: also those of RocketMQ itself.")] = False


class TopicSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A change of a topic.

    What is left out stays, or is the default of a new one.
    """

    queues: Annotated[_Queues | None, msgspec.Meta(description="Read and write queues at each broker.")] = None
    read_queues: _Queues | None = None
    write_queues: _Queues | None = None
    permission: _Permission | None = None
    order: Annotated[bool | None, msgspec.Meta(description="Order topic: nameservers keep its queues.")] = None
    brokers: _Brokers = []


class NewTopic(TopicSettings, kw_only=True, forbid_unknown_fields=True):
    """A topic to create."""

    topic: _Topic


class GroupSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A change of a consumer group.

    What is left out stays, or is the default of a new one.
    """

    consume: bool | None = None
    broadcast: bool | None = None
    from_min: bool | None = None
    notify: bool | None = None
    retries: _Count32 | None = None
    retry_queues: Annotated[int, msgspec.Meta(ge=0, le=1024)] | None = None
    broker_id: Annotated[_Count64 | None, msgspec.Meta(description="Broker id that pulls are sent to.")] = None
    when_slow: Annotated[_Count64 | None, msgspec.Meta(description="whichBrokerWhenConsumeSlowly.")] = None
    brokers: _Brokers = []


class NewGroup(GroupSettings, kw_only=True, forbid_unknown_fields=True):
    """A consumer group to create."""

    group: _Group


class DeletedGroup(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to delete with a group."""

    offsets: Annotated[bool, msgspec.Meta(description="Its offsets, too.")] = False


class Lag(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which part of a group's progress to return."""

    topic: _OfTopic = None


class Offsets(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose offsets to return."""

    group: Annotated[_Group, msgspec.Meta(description="The consumer group.", examples=["shop"])]
    topic: _OfTopic = None


class Reset(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to set a group's offsets: either `time` or `offset`."""

    group: _Group
    topic: _Topic
    time: _Time | None = None
    only_back: Annotated[bool, msgspec.Meta(description="With `time`: move no offset forward.")] = False
    offset: _Count64 | None = None
    queue: Annotated[str | None, msgspec.Meta(description="With `offset`: only this queue, BROKER:QUEUE.")] = None


class BrokerName(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The broker name to change."""

    broker: Annotated[Name, msgspec.Meta(examples=["broker-a"])]


class Copy(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to read a message."""

    at: _Copy = ""


class UniqueKey(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A message by the id that its producer gave it."""

    topic: _Topic
    key: _Key


class Key(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Messages with a key."""

    topic: _Topic
    key: Annotated[_Key, msgspec.Meta(pattern="^[^ ]*$")]
    count: _NumberOfMessages = MOST_MESSAGES
    begin: _TextTime = "first"
    end: Annotated[str, msgspec.Meta(max_length=64, description="Stored until this time; any time if empty.")] = ""


class Queue(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Messages of a queue from an offset on."""

    queue: Annotated[Name, msgspec.Meta(description="TOPIC@BROKER:QUEUE.", examples=["orders@broker-a:0"])]
    offset: _Count64
    count: _NumberOfMessages = 1
    at: _Copy = ""


class SettingNames(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which settings to return."""

    key: Annotated[list[Name], msgspec.Meta(max_length=MOST_FIELDS, description="Only these; may be repeated.")] = []


class NewSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Settings to change at once, by RocketMQ's names."""

    settings: Annotated[Settings, msgspec.Meta(min_length=1)]
