"""Which connections are members of which groups, within limits.

Producers and consumers have a table each. A heartbeat names up to some thousand groups, and a peer may open many
connections, so both the groups of a connection and all pairs are limited (issue 12.6).
"""

from typing import Any

import attrs

from rmqlab.runtime.net.channel import Channel

MAX_GROUPS_OF_CHANNEL = 2000
"""Groups, of consumers or of producers, that one connection may be in."""
MAX_MEMBERS = 500_000
"""Pairs of a group and a connection in one table."""
MAX_NAME_SIZE = 1024
"""Characters in a group name or a client id. 4.9.8 has no limit but the frame."""


class TooManyClientsError(Exception):
    """A heartbeat would exceed a limit of a table.

    The message names the limit.
    """


@attrs.define(eq=False)
class Memberships:
    """The groups of each connection, in the order in which it joined them."""

    _groups_of: dict[Any, dict[str, None]] = attrs.field(factory=dict, init=False)
    """By channel. A channel without groups is absent."""
    _pairs: int = attrs.field(default=0, init=False)
    """Pairs of a group and a connection."""

    def has(self, channel: Channel, group_name: str) -> bool:
        """Return True if a connection is a member of a group."""
        return group_name in self._groups_of.get(channel, ())

    def groups_of(self, channel: Channel) -> list[str]:
        """Return the groups of a connection."""
        return list(self._groups_of.get(channel, ()))

    def check_room(self, channel: Channel, group_name: str) -> None:
        """Raise TooManyClientsError if a connection is no member and cannot join."""
        if self.has(channel, group_name):
            return
        if len(group_name) > MAX_NAME_SIZE:
            raise TooManyClientsError(f"the name of a group has more than {MAX_NAME_SIZE} characters")
        if len(self._groups_of.get(channel, ())) >= MAX_GROUPS_OF_CHANNEL:
            raise TooManyClientsError(f"a connection is in {MAX_GROUPS_OF_CHANNEL} groups at most")
        if self._pairs >= MAX_MEMBERS:
            raise TooManyClientsError(f"this broker has {MAX_MEMBERS} members of groups")

    def add(self, channel: Channel, group_name: str) -> None:
        """Add a connection that is no member of the group."""
        self._pairs += 1
        self._groups_of.setdefault(channel, {})[group_name] = None

    def remove(self, channel: Channel, group_name: str) -> None:
        """Remove a connection that is a member of the group."""
        self._pairs -= 1
        groups = self._groups_of[channel]
        del groups[group_name]
        if not groups:
            del self._groups_of[channel]
