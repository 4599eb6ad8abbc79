"""Flow control: refuse requests that have waited too long with code 2.

Class BrokerFastFailure. RocketMQ has a queue before each of its thread pools, and checks every 10 ms for requests that
have waited too long. Here the waiting requests are those found at the beginning of a pass of the reactor: each waits
until those before it are handled. Its age is the CPU time of this thread since then, in real seconds at any rate of the
cluster's clock. The time of other processes does not count, because it would also stop RocketMQ's queues. While a
message is being written, which may stall, wall time counts.

    [PCBUSY_CLEAN_QUEUE]   sends behind a message that took more than osPageCacheBusyTimeOutMills to be written
    [TIMEOUT_CLEAN_QUEUE]  sends after waitTimeMillsInSendQueue, and likewise pulls, heartbeats, ends of transactions

[REJECTREQUEST] and [OVERLOAD] do not occur: there is no transient store pool and no request queue.
"""

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from rmqlab.broker.config import BrokerConfig
from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime import stopwatch
from rmqlab.runtime.net.dispatch import Reply

SENDS = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
    }
)
"""Codes that wait in RocketMQ's send queue."""

_ALLOWED: dict[int, Callable[[BrokerConfig], int]] = {
    **dict.fromkeys(SENDS, lambda config: config.wait_time_mills_in_send_queue),
    RequestCode.PULL_MESSAGE: lambda config: config.wait_time_mills_in_pull_queue,
    RequestCode.LITE_PULL_MESSAGE: lambda config: config.wait_time_mills_in_pull_queue,
    RequestCode.HEART_BEAT: lambda config: config.wait_time_mills_in_heartbeat_queue,
    RequestCode.END_TRANSACTION: lambda config: config.wait_time_mills_in_transaction_queue,
}
"""Milliseconds that a request may wait, by its code."""

_YOUNG = 0.001
"""Seconds since the beginning of a pass below which no further check is made."""


class ReactorPass(Protocol):
    """The reactor, as far as it is used here: when its present pass began."""

    @property
    def pass_began(self) -> float:
        """By stopwatch.wall."""

    @property
    def pass_began_cpu(self) -> float:
        """By stopwatch.cpu."""


@attrs.define(eq=False)
class Overload:
    """Judges how long the requests of a pass have waited."""

    broker: Broker
    reactor: ReactorPass
    wall: Callable[[], float] = attrs.field(factory=lambda: stopwatch.wall)
    cpu: Callable[[], float] = attrs.field(factory=lambda: stopwatch.cpu)

    def admit(self, _channel: Any, command: Command) -> Reply | None:
        """Let a request pass (None), or refuse it.

        The age in the remark is in milliseconds.
        """
        waited = self.wall() - self.reactor.pass_began
        if waited < _YOUNG or (allowed := _ALLOWED.get(command.code)) is None:
            return None
        config = self.broker.config
        longest = min(allowed(config), config.os_page_cache_busy_time_out_mills)
        if waited * 1000 < longest or not config.broker_fast_failure_enable:
            return None
        if command.code in SENDS and self._is_behind_a_stall(config.os_page_cache_busy_time_out_mills):
            return _busy("PCBUSY_CLEAN_QUEUE", waited)
        worked = self.cpu() - self.reactor.pass_began_cpu
        return _busy("TIMEOUT_CLEAN_QUEUE", worked) if worked * 1000 >= allowed(config) else None

    def _is_behind_a_stall(self, limit_millis: int) -> bool:
        """Return True if writing a message took too long in this pass."""
        recent = self.broker.stats.put_times.recent
        return any(ended >= self.reactor.pass_began and millis > limit_millis for ended, millis in recent)


def _busy(tag: str, seconds: float) -> Reply:
    remark = (
        f"[{tag}]broker busy, start flow control for a while, period in queue: {int(seconds * 1000)}ms, size of queue:"
        " 0"
    )
    return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)
