"""Who is connected: the producers and the consumer groups that sent heartbeats.

Classes ProducerManager, ConsumerManager, ConsumerGroupInfo. A member is a connection, not a client id: two
consumers with one id on two connections are two members (broker-requests section 3).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from remoting.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from remoting.channel import Channel

EXPIRY = 120.0
"""Seconds without a heartbeat after which a member is dropped."""


@attrs.define(eq=False)
class Member:
    """One connection that takes part in a group."""

    channel: Channel
    client_id: str
    language: str
    version: int
    seen_at: float


@attrs.define(eq=False)
class ConsumerGroup:
    """One consumer group as its members last described it."""

    name: str
    consume_type: ConsumeType | None
    message_model: MessageModel | None
    consume_from_where: ConsumeFromWhere | None
    members: dict[Any, Member] = attrs.field(factory=dict)
    subscriptions: dict[str, SubscriptionData] = attrs.field(factory=dict)

    def merge_subscriptions(self, fresh: Iterable[SubscriptionData]) -> bool:
        """Take the subscriptions of a heartbeat: add, renew where newer, drop what it lacks. True if topics changed."""
        named = {data.topic: data for data in fresh}
        changed = named.keys() != self.subscriptions.keys()
        for topic in [topic for topic in self.subscriptions if topic not in named]:
            del self.subscriptions[topic]
        for topic, data in named.items():
            known = self.subscriptions.get(topic)
            if known is None or data.sub_version > known.sub_version:
                self.subscriptions[topic] = data
        return changed


class ConsumerTable:
    """The consumer groups that have members."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.on_empty: Callable[[str], None] = lambda _group: None
        """Told of a group whose last member is gone."""

    def register(self, data: ConsumerData, member: Member) -> bool:
        """Take a heartbeat of one group. True where the other members must be told: a new member, or new topics."""
        group = self.groups.get(data.group_name)
        if group is None:
            group = self.groups[data.group_name] = ConsumerGroup(
                data.group_name, data.consume_type, data.message_model, data.consume_from_where
            )
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        is_new = member.channel not in group.members
        group.members[member.channel] = member
        return group.merge_subscriptions(data.subscription_data_set) or is_new

    def leave(self, group_name: str, channel: Channel) -> bool:
        """Drop one connection from one group. True where others are left who must be told."""
        group = self.groups.get(group_name)
        if group is None or group.members.pop(channel, None) is None:
            return False
        if not group.members:
            del self.groups[group_name]
            self.on_empty(group_name)
            return False
        return True

    def leave_all(self, channel: Channel) -> list[str]:
        """Drop a connection that is gone; answer the groups whose other members must be told."""
        return [name for name in list(self.groups) if self.leave(name, channel)]

    def expired(self, now: float) -> list[Member]:
        """The members that were silent for too long."""
        return _expired((group.members for group in self.groups.values()), now)

    def find(self, group_name: str, client_id: str) -> Member | None:
        """The member of a group with this client id."""
        group = self.groups.get(group_name)
        members = group.members.values() if group else ()
        return next((member for member in members if member.client_id == client_id), None)

    def groups_of(self, topic: str) -> set[str]:
        """The groups that subscribe to a topic just now."""
        return {name for name, group in self.groups.items() if topic in group.subscriptions}


class ProducerTable:
    """The producer groups that have members."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[Channel, Member]] = {}
        self.by_client_id: dict[str, Channel] = {}

    def register(self, group_name: str, member: Member) -> None:
        """Take a heartbeat of one group."""
        self.groups.setdefault(group_name, {})[member.channel] = member
        self.by_client_id[member.client_id] = member.channel

    def leave(self, group_name: str, channel: Channel) -> None:
        """Drop one connection from one group."""
        members = self.groups.get(group_name)
        if members is None or (member := members.pop(channel, None)) is None:
            return
        if self.by_client_id.get(member.client_id) is channel:
            del self.by_client_id[member.client_id]
        if not members:
            del self.groups[group_name]

    def leave_all(self, channel: Channel) -> None:
        """Drop a connection that is gone."""
        for name in list(self.groups):
            self.leave(name, channel)

    def expired(self, now: float) -> list[Member]:
        """The members that were silent for too long."""
        return _expired(self.groups.values(), now)


def _expired(groups: Iterable[Mapping[Any, Member]], now: float) -> list[Member]:
    return [member for members in groups for member in members.values() if now - member.seen_at > EXPIRY]
