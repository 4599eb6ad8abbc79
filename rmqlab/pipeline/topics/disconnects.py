"""Disconnections by Spark that are no errors: PySpark prints a traceback of each.

Spark closes the connection of a process that it no longer needs: of a stream's planner when the query stops, and of
its own requests to the driver when the session ends.
"""

import os
import socketserver
import sys
import traceback
from types import TracebackType
from typing import Any, Final

from rmqlab.pipeline.topics.blocking_client import close_links

_DISCONNECTIONS: Final = (EOFError, BrokenPipeError, ConnectionResetError)


def exit_if_disconnected() -> None:
    """End this process if PySpark handles the end of its connection to Spark.

    Else return. Call it from a method that PySpark calls while it handles the error. PySpark would try to send the
    error to Spark next, and print a traceback of that (python_streaming_source_runner).
    """
    failure = sys.exc_info()[1]
    if isinstance(failure, _DISCONNECTIONS) and _is_pysparks(failure.__traceback__):
        close_links()
        sys.stderr.flush()
        os._exit(0)


def _is_pysparks(trace: TracebackType | None) -> bool:
    """Return True if no function of a traceback is ours.

    Our own errors are to be reported.
    """
    packages = (frame.f_globals.get("__package__") or "" for frame, _ in traceback.walk_tb(trace))
    return not any(package.partition(".")[0] == "rmqlab" for package in packages)


def ignore_disconnects(server: socketserver.BaseServer) -> None:
    """Let a server print no traceback of a client that disconnects.

    Spark's JVM does so with the driver's server of accumulators if a task ends while the session stops.
    """
    report = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], _DISCONNECTIONS):
            report(request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]
