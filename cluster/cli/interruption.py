"""Ctrl-C and SIGTERM: commands print their results so far."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ending_at_ctrl_c(*, is_expected: bool = True) -> Iterator[None]:
    """End this block at Ctrl-C without an error: Ctrl-C is its regular end."""
    try:
        yield
    except KeyboardInterrupt:
        if not is_expected:
            raise


@contextmanager
def stopping_at_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at the first SIGINT or SIGTERM in this block.

    The next one raises KeyboardInterrupt. After `stop` the block continues, so that it receives the remaining output.
    In another thread than the main one it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: object) -> None:
        for number in before:
            signal.signal(number, signal.default_int_handler)
        stop()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
