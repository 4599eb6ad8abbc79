"""The sends of each message.

An application may send one message, with its unique id, several times.
"""

from collections.abc import Iterable

import attrs

from rmqlab.cluster.checks.events import Send


@attrs.frozen
class SentMessage:
    """A message with all of its sends, by time."""

    message_id: str
    sends: tuple[Send, ...]

    @property
    def decisive(self) -> Send:
        """Return the send that decides its outcome.

        An acknowledged one if there is any, SEND_OK first, else the last.
        """
        return max(self.sends, key=lambda send: (send.is_acknowledged, send.outcome == "SEND_OK", send.ended_at))

    def acknowledged_by(self, broker: str) -> list[Send]:
        """Return its sends that a broker name acknowledged."""
        return [send for send in self.sends if send.is_acknowledged and send.broker == broker]


def sent_messages(sends: Iterable[Send]) -> list[SentMessage]:
    """Return each message once, in the order of their first sends."""
    found: dict[str, list[Send]] = {}
    for send in sends:
        for message_id in send.ids:
            found.setdefault(message_id, []).append(send)
    return [SentMessage(message_id, tuple(own)) for message_id, own in found.items()]
