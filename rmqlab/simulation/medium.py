"""The wire below simulated sockets: latency, and where bytes are cut."""

import itertools
from collections.abc import Iterator

from rmqlab.simulation.machine import Machine

LATENCY = 50e-6
"""Minimum latency of a packet, in seconds."""
JITTER = 50e-6
"""Maximum additional latency, in seconds."""
CUT_CHANCE = 0.01
"""How often a send is accepted in part only, and how often bytes arrive in two pieces."""
_SMALLEST_CUT = 64
"""Bytes below which a send stays whole."""


class Medium:
    """The wire of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._numbers = itertools.count(3)

    def next_number(self) -> int:
        """Return a number for a socket, where a real one has its descriptor."""
        return next(self._numbers)

    def latency(self) -> float:
        """Return the latency of the next packet, in seconds."""
        return LATENCY + JITTER * self.machine.rng.random()

    def accepted(self, size: int) -> int:
        """Return how many of so many bytes a send accepts: as a rule all."""
        rng = self.machine.rng
        return rng.randrange(1, size) if size >= _SMALLEST_CUT and rng.random() < CUT_CHANCE else size

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the parts that arrive together: usually a single part."""
        cut = self.accepted(len(data))
        yield data[:cut]
        if cut < len(data):
            yield data[cut:]
