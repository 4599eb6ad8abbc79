"""Connected producers and consumer groups, by their heartbeats.

Classes ProducerManager, ConsumerManager, ConsumerGroupInfo. A member is a connection, not a client id: two
consumers with one id on two connections are two members (broker-requests section 3).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import attrs

from rmqlab.broker.tables.memberships import Memberships, TooManyClientsError
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from rmqlab.runtime.net.channel import Channel

EXPIRY = 120.0
"""Seconds without a heartbeat after which a member is dropped."""
MAX_SUBSCRIPTION_BYTES = 256 * 2**20
"""Limit of the estimated size of all subscriptions, in bytes."""
_SUBSCRIPTION_COST = 512
_TAG_COST = 100


@attrs.define(eq=False)
class Member:
    """One connection that is a member of a group."""

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
    size: int = 0
    """Estimated size of the subscriptions, in bytes."""

    def merge_subscriptions(self, fresh: Iterable[SubscriptionData]) -> bool:
        """Apply the subscriptions of a heartbeat; return True if the topics changed.

        New subscriptions are added, newer ones replace older ones, missing ones are dropped. Of several for a topic the
        one with the highest version counts.
        """
        named: dict[str, SubscriptionData] = {}
        for data in fresh:
            if data.topic not in named or data.sub_version > named[data.topic].sub_version:
                named[data.topic] = data
        changed, changed_sizes = named.keys() != self.subscriptions.keys(), False
        for topic in [topic for topic in self.subscriptions if topic not in named]:
            del self.subscriptions[topic]
        for topic, data in named.items():
            known = self.subscriptions.get(topic)
            if known is None or data.sub_version > known.sub_version:
                self.subscriptions[topic] = data
                changed_sizes = True
        if changed_sizes or changed:
            self.size = subscriptions_size(self.subscriptions.values())
        return changed


def subscriptions_size(subscriptions: Iterable[SubscriptionData]) -> int:
    """Return the estimated size of subscriptions, in bytes."""
    return sum(
        _SUBSCRIPTION_COST
        + len(one.topic)
        + len(one.sub_string)
        + len(one.filter_class_source or "")
        + len(one.expression_type)
        + sum(map(len, one.tags_set))
        + _TAG_COST * (len(one.tags_set) + len(one.code_set))
        for one in subscriptions
    )


class GroupFilters(Protocol):
    """The filters of consumer groups; those of a group end with its last member."""

    def unregister(self, group_name: str, /) -> None:
        """Mark the filters of a group as unused."""


class ConsumerTable:
    """The consumer groups that have members."""

    def __init__(self, filters: GroupFilters) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._filters = filters
        self.size = 0
        """Estimated size of all subscriptions, in bytes."""
        self._memberships = Memberships()

    def register(self, data: ConsumerData, member: Member) -> bool:
        """Apply a heartbeat of one group.

        True if other members must rebalance: a new member, or new topics.

        Raises TooManyClientsError.
        """
        group = self.groups.get(data.group_name)
        self._admit(data, member.channel, group)
        if group is None:
            group = self.groups[data.group_name] = ConsumerGroup(
                data.group_name, data.consume_type, data.message_model, data.consume_from_where
            )
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        known = group.members.get(member.channel)
        if known is None:
            self._memberships.add(member.channel, data.group_name)
        if known is None or known.client_id != member.client_id:
            group.members[member.channel] = member
        else:  # keeps language and version (ConsumerGroupInfo.updateChannel)
            known.seen_at = member.seen_at
        size = group.size
        is_changed = group.merge_subscriptions(data.subscription_data_set)
        self.size += group.size - size
        return is_changed or known is None

    def _admit(self, data: ConsumerData, channel: Channel, group: ConsumerGroup | None) -> None:
        self._memberships.check_room(channel, data.group_name)
        if self.size > MAX_SUBSCRIPTION_BYTES // 2:  # far below the limit the exact growth does not matter
            grown = subscriptions_size(data.subscription_data_set) - (0 if group is None else group.size)
            if grown > 0 and self.size + grown > MAX_SUBSCRIPTION_BYTES:
                raise TooManyClientsError(f"all subscriptions take more than {MAX_SUBSCRIPTION_BYTES} bytes")

    def leave(self, group_name: str, channel: Channel) -> bool:
        """Drop one connection from one group.

        True if other members remain and must rebalance.
        """
        group = self._remove(group_name, channel)
        if group is None:
            return False
        if not group.members:
            self._filters.unregister(group_name)
        return bool(group.members)

    def _remove(self, group_name: str, channel: Channel) -> ConsumerGroup | None:
        """Remove a member, and its group after the last one.

        Return the group, or None if the connection was no member.
        """
        group = self.groups.get(group_name)
        if group is None or group.members.pop(channel, None) is None:
            return None
        self._memberships.remove(channel, group_name)
        if not group.members:
            self.size -= group.size
            del self.groups[group_name]
        return group

    def has_member(self, group_name: str, channel: Channel) -> bool:
        """Return True if a connection is a member of a group."""
        return self._memberships.has(channel, group_name)

    def leave_all(self, channel: Channel) -> list[str]:
        """Drop a closed connection; return the groups whose other members must rebalance."""
        return [name for name in self._memberships.groups_of(channel) if self.leave(name, channel)]

    def drop_silent(self, now: float) -> list[Channel]:
        """Drop the members that were silent for too long; return their connections.

        Filters of a group without other members stay in use (ConsumerManager.scanNotActiveChannel).
        """
        silent = [
            (name, member.channel) for name, group in self.groups.items() for member in _silent(group.members, now)
        ]
        for name, channel in silent:
            self._remove(name, channel)
        return [channel for _, channel in silent]

    def find(self, group_name: str, client_id: str) -> Member | None:
        """Return the member of a group with this client id, or None."""
        group = self.groups.get(group_name)
        members = group.members.values() if group else ()
        return next((member for member in members if member.client_id == client_id), None)

    def groups_of(self, topic: str) -> set[str]:
        """Return the groups that subscribe to a topic now."""
        return {name for name, group in self.groups.items() if topic in group.subscriptions}


class ProducerTable:
    """The producer groups that have members."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[Channel, Member]] = {}
        self.by_client_id: dict[str, Channel] = {}
        self._memberships = Memberships()

    def register(self, group_name: str, member: Member) -> None:
        """Apply a heartbeat of one group. Raises TooManyClientsError.

        A member keeps the client id, language and version of its first heartbeat (ProducerManager.registerProducer).
        """
        known = self.groups.get(group_name, {}).get(member.channel)
        if known is not None:
            known.seen_at = member.seen_at
            return
        self._memberships.check_room(member.channel, group_name)
        self._memberships.add(member.channel, group_name)
        self.groups.setdefault(group_name, {})[member.channel] = member
        self.by_client_id[member.client_id] = member.channel

    def leave(self, group_name: str, channel: Channel) -> None:
        """Drop one connection from one group, if it is a member."""
        members = self.groups.get(group_name)
        if members is None or (member := members.pop(channel, None)) is None:
            return
        self._memberships.remove(channel, group_name)
        if self.by_client_id.get(member.client_id) is channel:
            del self.by_client_id[member.client_id]
        if not members:
            del self.groups[group_name]

    def has_member(self, group_name: str, channel: Channel) -> bool:
        """Return True if a connection is a member of a group."""
        return self._memberships.has(channel, group_name)

    def leave_all(self, channel: Channel) -> None:
        """Drop a closed connection."""
        for name in self._memberships.groups_of(channel):
            self.leave(name, channel)

    def silent(self, now: float) -> list[Channel]:
        """Return the connections of members that were silent for too long."""
        return [member.channel for members in self.groups.values() for member in _silent(members, now)]


def _silent(members: Mapping[Any, Member], now: float) -> list[Member]:
    return [member for member in members.values() if now - member.seen_at > EXPIRY]
