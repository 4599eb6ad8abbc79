"""Notices to the members of a consumer group to rebalance (request 40).

Source: broker-requests#39. 4.9.8 notifies every member of each change. When thousands of consumers of a group start
or stop at once, that is millions of notices, and any client causes as many with request 35. Here the notices of a large
group are sent in portions, and changes meanwhile share the next round; so do further changes of a small group in one
turn of the event loop. A member that does not read gets one notice of each group when it does (issue 12.6).
"""

import weakref
from functools import partial

import attrs

from rmqlab.broker.tables.clients import ConsumerGroup
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request
from rmqlab.remoting.headers.group import NotifyConsumerIdsChangedRequestHeader
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.slices import Later

NOTICES_AT_ONCE = 200
"""Members of large groups that are notified before sockets, timers and tasks are served."""
SMALL_GROUP = 20
"""Members of a group that are notified at once."""


@attrs.define(eq=False)
class RebalanceNotices:
    """Sends the notices.

    Members that join during a round of their group are in its next one.
    """

    later: Later
    _changed: dict[str, ConsumerGroup] = attrs.field(factory=dict, init=False)
    """Large groups whose next round has not begun."""
    _current: str = attrs.field(default="", init=False)
    _left: list[Channel] = attrs.field(factory=list, init=False)
    """The members of the current group that are not notified yet."""
    _notified: set[str] = attrs.field(factory=set, init=False)
    """Small groups that were notified in this turn of the event loop."""
    _held: weakref.WeakKeyDictionary[Channel, dict[str, None]] = attrs.field(
        factory=weakref.WeakKeyDictionary, init=False
    )
    """Groups to notify a congested channel of, once it has read what it is owed."""

    def send(self, group: ConsumerGroup) -> None:
        """Notify all members of a group, now or soon."""
        if len(group.members) <= SMALL_GROUP and group.name not in self._notified:
            self._notified.add(group.name)
            if len(self._notified) == 1:
                self.later(self._notified.clear)
            for channel in list(group.members):
                self._notify(channel, group.name)
            return
        is_idle = not self._changed and not self._left
        self._changed[group.name] = group
        if is_idle:
            self.later(self._send_some)

    def _send_some(self) -> None:
        if not self._left:
            self._current = next(iter(self._changed))
            self._left = list(self._changed.pop(self._current).members)
        portion = self._left[-NOTICES_AT_ONCE:]
        del self._left[-NOTICES_AT_ONCE:]
        for channel in portion:
            self._notify(channel, self._current)
        if self._left or self._changed:
            self.later(self._send_some)

    def _notify(self, channel: Channel, group_name: str) -> None:
        if not channel.is_congested:
            _send(channel, group_name)
            return
        held = self._held.setdefault(channel, {})
        if not held:
            channel.when_drained(partial(self._drained, channel))
        held[group_name] = None

    def _drained(self, channel: Channel) -> None:
        for group_name in self._held.pop(channel, ()):
            _send(channel, group_name)


def _send(channel: Channel, group_name: str) -> None:
    header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group_name)
    channel.send_oneway(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header))
