"""Notices to the members of a consumer group to rebalance (request 40).

Source: broker-requests#39. 4.9.8 notifies every member of each change. When thousands of consumers of a group start
or stop at once, that is millions of notices. Here the notices of a large group are sent in portions, and changes
meanwhile share the next round (issue 12.6).
"""

import attrs

from rmqlab.broker.clients import ConsumerGroup
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request
from rmqlab.remoting.headers.group import NotifyConsumerIdsChangedRequestHeader
from rmqlab.runtime.channel import Channel
from rmqlab.runtime.slices import Later

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

    def send(self, group: ConsumerGroup) -> None:
        """Notify all members of a group, now or soon."""
        if len(group.members) <= SMALL_GROUP:
            for channel in list(group.members):
                _notify(channel, group.name)
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
            _notify(channel, self._current)
        if self._left or self._changed:
            self.later(self._send_some)


def _notify(channel: Channel, group_name: str) -> None:
    header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group_name)
    channel.send_oneway(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header))
