"""Installs the faults of this package in a process: event loops and wall clock."""

import contextlib
import selectors
from collections.abc import Callable, Iterator
from functools import partial

from rmqlab.faults import FAULTS
from rmqlab.faults.clock.hook import ClockFaults
from rmqlab.faults.link.hook import LinkFaults
from rmqlab.faults.request.hook import RequestFaults
from rmqlab.faults.rules import NodeRules
from rmqlab.faults.table import FaultTable
from rmqlab.runtime.clock import RatedClock
from rmqlab.runtime.net.fault_hooks import ReactorHooks
from rmqlab.runtime.net.node_faults import NodeFaults, PlainRules
from rmqlab.runtime.net.timers import Timers


def node_faults(table: FaultTable = FAULTS) -> NodeFaults:
    """Return the faults of a node, without rules; event loops apply the table's kinds."""
    return NodeFaults(partial(_open_hooks, table))


def faults_of_process(clock: RatedClock, rules: PlainRules) -> NodeFaults:
    """Return the faults of a process that starts with these rules.

    Its wall clock follows them from now on.
    """
    faults = node_faults()
    faults.set(rules)
    faults.follow(_reading(ClockFaults(clock).follow, FAULTS))
    return faults


@contextlib.contextmanager
def following(faults: NodeFaults, follow: Callable[[NodeRules], None]) -> Iterator[None]:
    """Call `follow` with the rules now and whenever they change, until the block ends."""
    follower = _reading(follow, FAULTS)
    faults.follow(follower)
    try:
        yield
    finally:
        faults.unfollow(follower)


def _open_hooks(
    table: FaultTable, faults: NodeFaults, selector: selectors.BaseSelector, timers: Timers
) -> ReactorHooks:
    links = LinkFaults(selector, timers)
    requests = RequestFaults(faults, timers)

    def follow(rules: NodeRules) -> None:
        requests.follow(rules)
        links.follow(rules)

    return ReactorHooks(links, requests, _reading(follow, table))


def _reading(follow: Callable[[NodeRules], None], table: FaultTable) -> Callable[[PlainRules], None]:
    return lambda plain: follow(NodeRules.from_plain(plain, table))
