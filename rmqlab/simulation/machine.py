"""The machine: virtual time, and the order of events.

Future events are in one heap, by time and then by order of scheduling. The machine does the kernel's work, such as
packets, also for nodes that are paused. The guests do the work of the nodes.
"""

import abc
import heapq
import math
import random
from collections.abc import Awaitable, Callable

import attrs

from rmqlab.simulation.guest import Guest, VirtualClock

EPOCH = 1_700_000_000.0
"""Wall time at the start, in seconds since 1970: November 2023. The same in every run."""

Event = Callable[[], object]


class DeadlockError(Exception):
    """The node that was run waits, and no event is scheduled."""


@attrs.define(eq=False)
class Node:
    """A process of the simulated machine."""

    guest: Guest
    on_end: Callable[[], object]
    is_paused: bool = False
    is_gone: bool = False
    """True after its end: its guest never runs again."""
    resources: dict["ProcessResource", None] = attrs.field(factory=dict)
    """Resources that the kernel closes when the process ends, in the order of opening."""
    _wakes_at: float = attrs.field(default=math.inf, init=False)

    @property
    def name(self) -> str:
        return self.guest.name


class ProcessResource(abc.ABC):
    """A resource that the kernel closes when its process ends."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """Close this after the end of its process."""


class Machine:
    """Runs nodes on virtual time, which begins at 0 seconds."""

    def __init__(self, seed: str) -> None:
        self.now = 0.0
        self.rng = random.Random(seed)  # noqa: S311 -- reproducible, not secret
        self.current: Node | None = None
        """The node that runs at the moment; None while the kernel works."""
        self._events: list[tuple[float, int, Event]] = []
        self._count = 0
        self._killed: list[Node] = []
        """Nodes that were killed: as long as they are kept, their tasks do not clean up."""

    def at(self, moment: float, fn: Event) -> None:
        """Call `fn` at a time, or now if it has passed."""
        self._count += 1
        heapq.heappush(self._events, (max(moment, self.now), self._count, fn))

    def after(self, seconds: float, fn: Event) -> None:
        """Call `fn` so many seconds from now."""
        self.at(self.now + seconds, fn)

    # ---- nodes ----

    def start(self, name: str, main: Callable[[], Awaitable[object]], on_end: Callable[[Node], object]) -> Node:
        """Start a process. `on_end` is called when it ends by itself.

        Its resources are closed by then.
        """
        guest = Guest(name, VirtualClock(lambda: self.now, EPOCH))
        node = Node(guest, lambda: on_end(node))
        self.after(0.0, lambda: self._begin(node, main))
        return node

    def call_in(self, node: Node, fn: Event) -> None:
        """Call `fn` inside a node, soon, or when it is resumed.

        No effect on a node that has ended.
        """
        if not node.is_gone:
            node.guest.call_soon(fn)
            if node is not self.current:  # a node that runs empties its inbox before it waits
                self._wake(node, self.now)

    def pause(self, node: Node) -> None:
        """Stop a process: SIGSTOP."""
        node.is_paused = True

    def resume(self, node: Node) -> None:
        """Continue a stopped process: SIGCONT."""
        node.is_paused = False
        self._wake(node, self.now)

    def kill(self, node: Node) -> None:
        """End a process at once: SIGKILL."""
        if not node.is_gone:
            self._killed.append(node)
            self._release(node)

    def _begin(self, node: Node, main: Callable[[], Awaitable[object]]) -> None:
        if node.is_gone:
            return
        self.current = node
        node.guest.start(main)
        self.current = None
        self._wake(node, self.now)

    def _wake(self, node: Node, moment: float) -> None:
        """Run a node at this time, unless it runs earlier anyway."""
        if moment < node._wakes_at:  # noqa: SLF001 -- kept by the machine
            node._wakes_at = moment  # noqa: SLF001
            if moment < math.inf:
                self.at(moment, lambda: self._run(node, moment))

    def _run(self, node: Node, moment: float) -> None:
        if node._wakes_at != moment:  # noqa: SLF001 -- it ran meanwhile, and waits for another time
            return
        node._wakes_at = math.inf  # noqa: SLF001
        if node.is_gone or node.is_paused:
            return
        self.current = node
        again_at = node.guest.run()
        self.current = None
        if node.guest.result is not None:
            self._release(node)
            node.on_end()
        else:
            self._wake(node, max(again_at, self.now))

    def _release(self, node: Node) -> None:
        node.is_gone = True
        resources, node.resources = node.resources, {}
        for resource in resources:
            resource.abandon()

    # ---- time ----

    def run_until(self, node: Node) -> None:
        """Run events until this node has ended. DeadlockError if none is left before that."""
        while not node.is_gone:
            if not self._events:
                raise DeadlockError(f"{node.name} waits at {self.now:.3f} s, and no event is scheduled")
            self.now, _, happen = heapq.heappop(self._events)
            happen()
