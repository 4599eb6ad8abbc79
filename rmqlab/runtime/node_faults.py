"""The current fault rules of a node, and the functions that apply them.

This module is independent of the kinds of faults: rules are plain values for `rmqlab.faults`. A process without faults,
such as a server without a supervisor, needs only this module.
"""

import selectors
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from rmqlab.runtime.fault_hooks import ReactorHooks, no_hooks
from rmqlab.runtime.timers import Timers

PlainRules = Mapping[str, Any]
"""Fault rules of one node as plain values: `rmqlab.faults.rules.NodeRules` parses them."""
Follower = Callable[[PlainRules], None]
OpenHooks = Callable[["NodeFaults", selectors.BaseSelector, Timers], ReactorHooks]


@attrs.define(eq=False)
class NodeFaults:
    """The current rules of one node and the functions that apply them. For the trio thread only."""

    open_hooks: OpenHooks = no_hooks
    """Returns the hooks for an event loop of this node."""
    rules: PlainRules = attrs.field(factory=dict)
    on_spent: Callable[[str], None] = lambda _fault: None
    """Called with the id of a fault that has occurred the configured number of times."""
    _followers: list[Follower] = attrs.field(factory=list, init=False)

    def set(self, rules: PlainRules) -> None:
        """Replace the current rules, with immediate effect."""
        self.rules = rules
        for follower in tuple(self._followers):
            follower(rules)

    def follow(self, follower: Follower) -> None:
        """Call `fn` with the rules now and on each change."""
        self._followers.append(follower)
        follower(self.rules)

    def unfollow(self, follower: Follower) -> None:
        """Stop calling."""
        self._followers.remove(follower)


_PROCESS_FAULTS: trio.lowlevel.RunVar[NodeFaults] = trio.lowlevel.RunVar("faults of this process")


def set_process_faults(faults: NodeFaults) -> None:
    """Apply these faults to all event loops of this trio run: a process is one node."""
    _PROCESS_FAULTS.set(faults)


def process_faults() -> NodeFaults:
    """Return the faults of this process; without a supervisor, new ones without rules."""
    return _PROCESS_FAULTS.get(NodeFaults())
