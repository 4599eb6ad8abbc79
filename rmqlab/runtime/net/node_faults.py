"""The current fault rules of a node, and the functions that apply them.

This module is independent of the kinds of faults: rules are plain values for `rmqlab.faults`. A process without faults,
such as a server without a supervisor, needs only this module.
"""

import contextlib
import selectors
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import trio

from rmqlab.runtime.net.fault_hooks import ReactorHooks, no_hooks
from rmqlab.runtime.net.timers import Timers

PlainRules = Mapping[str, Any]
"""Fault rules of one node as plain values: `rmqlab.faults.rules.NodeRules` parses them."""
Follower = Callable[[PlainRules], None]
SpentObserver = Callable[[str], None]
"""Receives the id of a fault."""
OpenHooks = Callable[["NodeFaults", selectors.BaseSelector, Timers], ReactorHooks]


@attrs.define(eq=False)
class NodeFaults:
    """The current rules of one node and the functions that apply them.

    For the trio thread only.
    """

    open_hooks: OpenHooks = no_hooks
    """Returns the hooks for an event loop of this node."""
    rules: PlainRules = attrs.field(factory=dict)
    _followers: list[Follower] = attrs.field(factory=list, init=False)
    _spent_observers: list[SpentObserver] = attrs.field(factory=list, init=False)

    def set(self, rules: PlainRules) -> None:
        """Replace the current rules, with immediate effect."""
        self.rules = rules
        for follower in tuple(self._followers):
            follower(rules)

    def follow(self, follower: Follower) -> None:
        """Call `follower` with the rules now and on each change."""
        self._followers.append(follower)
        follower(self.rules)

    def unfollow(self, follower: Follower) -> None:
        """Stop calling a function that was passed to `follow`."""
        self._followers.remove(follower)

    def report_spent(self, fault_id: str) -> None:
        """Report that a fault has occurred the configured number of times."""
        for observer in tuple(self._spent_observers):
            observer(fault_id)

    @contextlib.contextmanager
    def observing_spent(self, observer: SpentObserver) -> Iterator[None]:
        """Call `observer` with the id of each fault that is reported meanwhile."""
        self._spent_observers.append(observer)
        try:
            yield
        finally:
            self._spent_observers.remove(observer)


_PROCESS_FAULTS: trio.lowlevel.RunVar[NodeFaults] = trio.lowlevel.RunVar("faults of this process")


def set_process_faults(faults: NodeFaults) -> None:
    """Apply these faults to all event loops of this trio run: a process is one node."""
    _PROCESS_FAULTS.set(faults)


def process_faults() -> NodeFaults:
    """Return the faults of this process; without a supervisor, new ones without rules."""
    return _PROCESS_FAULTS.get(NodeFaults())
