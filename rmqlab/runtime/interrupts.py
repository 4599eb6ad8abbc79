"""Signals that end a command as Ctrl-C does, so that it stops what it started."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_ctrl_c(number: signal.Signals) -> Iterator[None]:
    """Let a signal raise KeyboardInterrupt in this block.

    In another thread than the main one, where no handler can be set, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)
