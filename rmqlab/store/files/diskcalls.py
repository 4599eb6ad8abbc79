"""Work on files as a generator of its slow calls, so that a thread can make them.

Deleting or unmapping a file of a GB takes some 100 ms. Everything between two calls runs in the thread that owns the
store: the calls touch no list of files. The caller makes each call, and throws its OSError into the generator.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

DiskCalls: TypeAlias = Generator[Callable[[], object], None, T]


def run_calls(calls: DiskCalls[T]) -> T:
    """Make all calls at once; return the result.

    OSError of a call, if the generator does not catch it.
    """
    try:
        call = next(calls)
        while True:
            try:
                call()
            except OSError as exc:
                call = calls.throw(exc)
            else:
                call = next(calls)
    except StopIteration as end:
        result: T = end.value
        return result
