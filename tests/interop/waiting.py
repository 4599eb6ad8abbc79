"""Wait for a fact about other processes; at the deadline, name the fact."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PROBE_PERIOD = 0.05  # seconds between two looks: short beside any start-up here, light on the CPU


def wait_until(probe: Callable[[], T | None], what: str, timeout: float = 120.0, *, period: float = _PROBE_PERIOD) -> T:
    """Return the first true result of `probe`; an OSError of it means "not yet"."""
    deadline = time.monotonic() + timeout
    problem: object = None
    while time.monotonic() < deadline:
        try:
            answer = probe()
        except OSError as exc:
            problem = exc
        else:
            if answer:
                return answer
            problem = answer
        time.sleep(period)
    raise TimeoutError(f"{what}: not within {timeout:g} s (last: {problem!r})")
