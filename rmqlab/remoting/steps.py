"""Long computations as generators that yield now and then.

A server does other work in between.
"""

from collections.abc import Generator
from typing import TypeVar

R = TypeVar("R")


def run_to_end(steps: Generator[None, None, R]) -> R:
    """Run all steps at once, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: R = done.value
            return result
