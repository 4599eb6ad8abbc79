"""The request faults in force at some dispatchers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import trio

from rmqlab.faults.request.fault import RequestFault
from rmqlab.faults.rules import NodeRules
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.dispatch import Dispatcher, Reply, Request
from rmqlab.runtime.net.node_faults import NodeFaults
from rmqlab.runtime.net.timers import Timers


@attrs.frozen
class _HeldRequest:
    """A request that a fault keeps from its handler."""

    dispatcher: Dispatcher[Any]
    channel: Any
    command: Command
    timers: Timers
    now: Callable[[], float]

    def reply(self, reply: Reply) -> None:
        Request(self.command, self.channel).reply(reply)

    def handle_after(self, seconds: float) -> None:
        self.timers.call_at(self.now() + seconds, self._handle)

    def _handle(self) -> None:
        if not self.channel.is_closed:
            self.dispatcher.serve(self.channel, self.command, is_late=True)


@attrs.define(eq=False)
class RequestFaults:
    """Intercepts the requests of some dispatchers while there are faults.

    The dispatchers count `times` together.
    """

    node: NodeFaults
    """Hears of each fault that has affected as many requests as it should."""
    timers: Timers
    now: Callable[[], float] = trio.current_time
    _faults: dict[str, RequestFault] = attrs.field(factory=dict, init=False)
    _left: dict[str, int] = attrs.field(factory=dict, init=False)  # how many more, of the faults that end
    _dispatchers: list[Dispatcher[Any]] = attrs.field(factory=list, init=False)

    def watch(self, dispatcher: Dispatcher[Any]) -> None:
        """Intercept the requests of this dispatcher, too."""
        self._dispatchers.append(dispatcher)
        self._set_hooks()

    def follow(self, rules: NodeRules) -> None:
        """Put these rules in force instead of those before.

        A fault that remains in force keeps its count.
        """
        self._faults = rules.own_faults(RequestFault)  # type: ignore[type-abstract]  # a family, never called
        self._left = {
            fault_id: self._left.get(fault_id, fault.times) for fault_id, fault in self._faults.items() if fault.times
        }
        self._set_hooks()

    def _set_hooks(self) -> None:
        for dispatcher in self._dispatchers:
            dispatcher.inject_fault = partial(self._intercept, dispatcher) if self._faults else None

    def _intercept(self, dispatcher: Dispatcher[Any], channel: Any, command: Command) -> bool:
        """Apply the oldest fault for this code.

        True if the request is not to be handled now.
        """
        for fault_id, fault in self._faults.items():
            if fault.code_number == command.code and self._left.get(fault_id) != 0:
                fault.hold(_HeldRequest(dispatcher, channel, command, self.timers, self.now))
                self._count(fault_id)
                return True
        return False

    def _count(self, fault_id: str) -> None:
        if fault_id in self._left:
            self._left[fault_id] -= 1
            if self._left[fault_id] == 0:
                self.node.report_spent(fault_id)
