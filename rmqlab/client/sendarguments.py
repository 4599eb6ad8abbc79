"""Checks of the arguments of sends. Pure.

`check_value` takes 15 us, so it is called only for what may be wrong.
"""

from collections.abc import Callable, Sequence

from rmqlab.client.errors import RefusedError
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.runtime.config.valuetypes import MOST_WAIT, TimeLimit, check_value

SelectQueue = Callable[[Sequence[MessageQueue]], MessageQueue]
To = MessageQueue | SelectQueue


def send_limit(timeout: float | None, to: To | None, default: float) -> float:
    """Return the seconds of a send.

    TypeError and ValueError for invalid arguments.
    """
    if not (to is None or to.__class__ is MessageQueue or callable(to)):
        check_value("to", to, MessageQueue | Callable)
    if timeout is None:
        return default
    if not (timeout.__class__ is float and 0 < timeout <= MOST_WAIT):
        check_value("timeout", timeout, TimeLimit)
    return float(timeout)


def chosen_queue(to: To, queues: Sequence[MessageQueue]) -> MessageQueue:
    """Return the named queue, or the one that a function of the application chooses.

    TypeError if it returns no queue.
    """
    if isinstance(to, MessageQueue):
        return to
    chosen = to(queues)
    if chosen.__class__ is not MessageQueue:
        check_value("to(queues)", chosen, MessageQueue)
    return chosen


def refusing(to: SelectQueue) -> SelectQueue:
    """Return the function, with RefusedError for what it raises.

    No caller waits for it.
    """

    def choose(queues: Sequence[MessageQueue]) -> MessageQueue:
        try:
            return chosen_queue(to, queues)
        except Exception as exc:
            raise RefusedError(f"not sent: the choice of a queue failed: {exc!r}") from exc

    return choose
