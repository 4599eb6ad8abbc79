"""The fault rules in force at a node, and who follows them.

This module knows no kind of fault: rules are plain values for `rmqlab.faults`. A process without faults, such as a
server that runs without a supervisor, needs nothing beside this.
"""

import selectors
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from rmqlab.runtime.fault_hooks import ReactorHooks, no_hooks
from rmqlab.runtime.timers import Timers

PlainRules = Mapping[str, Any]
"""Fault rules of one node as they travel: `rmqlab.faults.rules.NodeRules` reads them."""
Follower = Callable[[PlainRules], None]
OpenHooks = Callable[["NodeFaults", selectors.BaseSelector, Timers], ReactorHooks]


@attrs.define(eq=False)
class NodeFaults:
    """The rules in force at one node, and who enforces them. Belongs to the trio thread."""

    open_hooks: OpenHooks = no_hooks
    """Makes the hooks of an event loop of this node."""
    rules: PlainRules = attrs.field(factory=dict)
    on_spent: Callable[[str], None] = lambda _fault: None
    """Called with the id of a fault that has occurred as often as it should."""
    _followers: list[Follower] = attrs.field(factory=list, init=False)

    def set(self, rules: PlainRules) -> None:
        """Put these rules in force instead of those before, at once."""
        self.rules = rules
        for follower in tuple(self._followers):
            follower(rules)

    def follow(self, follower: Follower) -> None:
        """Call with the rules now, and again whenever they change."""
        self._followers.append(follower)
        follower(self.rules)

    def unfollow(self, follower: Follower) -> None:
        """Stop calling."""
        self._followers.remove(follower)


_PROCESS_FAULTS: trio.lowlevel.RunVar[NodeFaults] = trio.lowlevel.RunVar("faults of this process")


def set_process_faults(faults: NodeFaults) -> None:
    """Let all event loops of this trio run follow these faults: a process is one node."""
    _PROCESS_FAULTS.set(faults)


def process_faults() -> NodeFaults:
    """The faults of this process; without a supervisor, new ones without rules."""
    return _PROCESS_FAULTS.get(NodeFaults())
