"""Fault rules as a node is told them, and the one place in a process where they are found.

The supervisor sends a node all rules that concern it, each time that one of them changes; a node is born with
those in force. Whoever enforces a kind of rule follows `PROCESS_FAULTS`: the reactor's links, a dispatcher, the
broker's disk, the clock. Times are of the cluster's clock.
"""

from collections.abc import Callable

import attrs

LINK_KINDS = ("blackhole", "refuse", "reset", "latency", "bandwidth", "cut", "slice")
DISK_KINDS = ("full", "slow-sync", "failing-sync", "read-only", "used")
REQUEST_KINDS = ("answer", "delay", "drop")
CLOCK_KINDS = ("step", "skew")


@attrs.frozen(kw_only=True)
class LinkRule:
    """What becomes of the bytes that go one way between this node and certain peers.

    A peer is meant by its IP address (`hosts`, or by not being in a network, `not_in`), or, where all share one,
    by the address that it serves at (`addresses`): then only connections that this node opens can be told.
    """

    id: str
    kind: str
    is_outbound: bool
    """The bytes that this node sends; else those that it receives."""
    is_shaped: bool = True
    """This node does it to the bytes. Else the peer does, and the rule counts for opening connections only."""
    hosts: tuple[str, ...] = ()
    not_in: str = ""
    """The beginning of the addresses that are not meant."""
    addresses: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    """Ports at which the connection is served, by either; none stands for all."""
    millis: float = 0.0
    """Latency; the time between two slices."""
    jitter_millis: float = 0.0
    """Up to so much more latency, at random. The order of the bytes stays."""
    bytes_per_second: float = 0.0
    count: int = 0
    """Bytes after which a connection is cut; bytes of a slice."""

    def concerns(self, host: str, address: str, port: int) -> bool:
        """True for a peer at this host, serving at this address if it is the one that serves, at this port."""
        if self.ports and port not in self.ports:
            return False
        if self.not_in:
            return not host.startswith(self.not_in)
        return host in self.hosts or address in self.addresses


@attrs.frozen(kw_only=True)
class DiskRule:
    """What the disk does to the store."""

    id: str
    kind: str
    bytes_left: int = 0
    """full: what may still be allocated."""
    millis: float = 0.0
    """slow-sync: how much longer each sync takes."""
    percent: int = 0
    """used: how full the disk says that it is."""


@attrs.frozen(kw_only=True)
class RequestRule:
    """What becomes of requests of one code."""

    id: str
    kind: str
    code: int
    times: int = 0
    """How many of them; 0 stands for all."""
    response_code: int = 0
    remark: str = ""
    millis: float = 0.0
    """delay: how much later they are handled."""


@attrs.frozen(kw_only=True)
class ClockRule:
    """What the wall clock does. Liveness and time-outs go by another clock, which is never wrong."""

    id: str
    kind: str
    millis: float = 0.0
    """step: so far from the cluster's time; negative is behind."""
    ppm: float = 0.0
    """skew: so many microseconds gained with each second, from the moment when the rule arrives."""


@attrs.frozen(kw_only=True)
class NodeRules:
    """All rules that are in force at one node."""

    links: tuple[LinkRule, ...] = ()
    disks: tuple[DiskRule, ...] = ()
    requests: tuple[RequestRule, ...] = ()
    clocks: tuple[ClockRule, ...] = ()

    @property
    def ids(self) -> list[str]:
        """The faults that they are of, each once."""
        kinds: tuple[tuple[LinkRule | DiskRule | RequestRule | ClockRule, ...], ...]
        kinds = self.links, self.disks, self.requests, self.clocks
        return list(dict.fromkeys(rule.id for rules in kinds for rule in rules))


Follower = Callable[[NodeRules], None]


@attrs.define(eq=False)
class NodeFaults:
    """The rules in force, and those who enforce them. Belongs to the trio thread."""

    rules: NodeRules = attrs.field(factory=NodeRules)
    on_spent: Callable[[str], None] = lambda _fault: None
    """Told the id of a rule that has done all that it was to do."""
    _followers: list[Follower] = attrs.field(factory=list, init=False)

    def set(self, rules: NodeRules) -> None:
        """Put these in force instead of those before, at once."""
        self.rules = rules
        for follower in tuple(self._followers):
            follower(rules)

    def follow(self, follower: Follower) -> None:
        """Call with the rules now, and again whenever they change."""
        self._followers.append(follower)
        follower(self.rules)

    def unfollow(self, follower: Follower) -> None:
        """Call no more."""
        self._followers.remove(follower)


PROCESS_FAULTS = NodeFaults()
"""This process's. A process is one node; tests that play several give each its own."""
