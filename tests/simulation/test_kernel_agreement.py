"""Random programs do the same over a simulated connection as over TCP."""

import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.ends import KernelEnds, Outcome, SimulatedEnds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulation follows Linux")

Step = tuple[str, int, int]
"""A call, the end that makes it, and a number of bytes."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "receive"]) | st.sampled_from(["has_peer", "close", "abort"]),
        st.integers(0, 1),
        st.integers(1, 300),
    ),
    max_size=14,
)


def do(ends: KernelEnds | SimulatedEnds, step: Step, position: int) -> Outcome:
    call, end, size = step
    match call:
        case "send":
            return ends.send(end, bytes((position + at) % 256 for at in range(size)))
        case "receive":
            return ends.receive(end, size)
        case "has_peer":
            return ends.has_peer(end)
        case "close":
            return ends.close(end)
        case _:
            return ends.abort(end)


@given(steps=STEPS, seed=st.integers(0, 2**32))
def test_random_programs_have_the_same_results(own_host: str, steps: Sequence[Step], seed: int) -> None:
    """Received bytes, ends of stream, and the errno of each call that fails."""
    simulated, kernel = SimulatedEnds.connected(str(seed)), KernelEnds.connected(own_host)
    try:
        for position, step in enumerate(steps):
            simulated.settle(step[1], 0)
            expected = do(simulated, step, position)
            kernel.settle(step[1], expected)
            assert do(kernel, step, position) == expected, (position, step)
    finally:
        for sock in kernel.sockets:
            sock.close()
