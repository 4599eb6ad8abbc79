"""Runs code on simulated machines, and lets virtual time pass."""

import heapq
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rmqlab.simulation.machine import Machine, Node

T = TypeVar("T")


def begin(machine: Machine, main: Callable[[], Awaitable[object]], name: str = "node") -> Node:
    """Start a node."""
    return machine.start(name, main, lambda _: None)


def run_node(machine: Machine, main: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `main` on a node of its own."""
    node = begin(machine, main, "main")
    machine.run_until(node)
    result: T = node.guest.outcome()
    return result


def pass_time(machine: Machine, seconds: float = math.inf) -> None:
    """Let everything happen within the next seconds, or all that is under way."""
    until = machine.now + seconds
    while machine._events and machine._events[0][0] <= until:
        machine.now, _, happen = heapq.heappop(machine._events)
        happen()
    if seconds < math.inf:
        machine.now = until
