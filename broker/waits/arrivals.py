"""Arrivals of messages: wakes held pulls and delayed delivery after dispatch."""

from collections.abc import Sequence

import attrs

from rmqlab.broker.deferred.delay import DueAlarm
from rmqlab.broker.waits.held_pulls import PullHold
from rmqlab.remoting import names


@attrs.frozen(eq=False)
class Arrivals:
    """Dispatch observer that wakes held pulls and schedules delayed delivery.

    Implements `rmqlab.store.dispatch.DispatchObserver`.
    """

    hold: PullHold
    due_alarm: DueAlarm

    def messages_dispatched(
        self, topic: str, queue_id: int, queue_offset: int, tags_codes: Sequence[int], _store_timestamp: int
    ) -> None:
        """Wake held pulls that match these messages.

        In the schedule topic, tags codes are times of delivery in ms.
        """
        if topic == names.SCHEDULE_TOPIC:
            self.due_alarm.bring_forward(due_millis=min(tags_codes))
        self.hold.arrived(topic, queue_id, queue_offset, tags_codes)
