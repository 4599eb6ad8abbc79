"""How long the work of this process takes: for budgets and statistics.

They measure the machine, not the cluster: `rmqlab.runtime.clock` has the cluster's time. A simulation replaces them,
because its course must not depend on the machine's load. Call them as `stopwatch.wall()`, never by an imported name.
"""

import time
from collections.abc import Callable

wall: Callable[[], float] = time.perf_counter
"""Returns seconds of real time, from an arbitrary origin."""
cpu: Callable[[], float] = time.thread_time
"""Returns seconds of CPU time of this thread, from an arbitrary origin."""


def replace(new_wall: Callable[[], float], new_cpu: Callable[[], float]) -> None:
    """Measure with these clocks from now on, in the whole process."""
    global wall, cpu
    wall, cpu = new_wall, new_cpu
