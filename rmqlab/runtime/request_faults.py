"""Requests that are not handled as they should be: answered otherwise, late, or not at all."""

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import trio

from rmqlab.remoting.command import Command
from rmqlab.runtime.dispatch import Dispatcher, Reply, Request
from rmqlab.runtime.fault_rules import NodeFaults, NodeRules, RequestRule
from rmqlab.runtime.timers import Timers


@attrs.define(eq=False)
class RequestFaults:
    """Meddles with the requests of some dispatchers while there are rules; they count together."""

    faults: NodeFaults
    timers: Timers
    now: Callable[[], float] = trio.current_time
    _rules: dict[str, RequestRule] = attrs.field(factory=dict, init=False)
    _left: dict[str, int] = attrs.field(factory=dict, init=False)  # how many more, of the rules that end
    _dispatchers: list[Dispatcher[Any]] = attrs.field(factory=list, init=False)

    def watch(self, dispatcher: Dispatcher[Any]) -> None:
        """Meddle with the requests of this one, too."""
        self._dispatchers.append(dispatcher)
        self._hook()

    def follow(self, rules: NodeRules) -> None:
        """Take the rules. One that is there already goes on counting."""
        self._rules = {rule.id: rule for rule in rules.requests}
        self._left = {rule.id: self._left.get(rule.id, rule.times) for rule in rules.requests if rule.times}
        self._hook()

    def _hook(self) -> None:
        for dispatcher in self._dispatchers:
            dispatcher.inject_fault = partial(self._meddle, dispatcher) if self._rules else None

    def _meddle(self, dispatcher: Dispatcher[Any], channel: Any, command: Command) -> bool:
        """Do what the oldest rule for this code wants. True if the request is not to be handled now."""
        rule = next((rule for rule in self._rules.values() if self._is_due(rule, command.code)), None)
        if rule is None:
            return False
        if rule.kind == "answer":
            Request(command, channel).reply(Reply(rule.response_code, remark=rule.remark or None))
        elif rule.kind == "delay":
            self.timers.call_at(self.now() + rule.millis / 1000, partial(_handle_late, dispatcher, channel, command))
        self._count(rule)
        return True

    def _is_due(self, rule: RequestRule, code: int) -> bool:
        return rule.code == code and self._left.get(rule.id) != 0

    def _count(self, rule: RequestRule) -> None:
        if rule.id in self._left:
            self._left[rule.id] -= 1
            if self._left[rule.id] == 0:
                self.faults.on_spent(rule.id)


def _handle_late(dispatcher: Dispatcher[Any], channel: Any, command: Command) -> None:
    if not channel.is_closed:
        dispatcher.serve(channel, command, is_late=True)
