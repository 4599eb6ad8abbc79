"""The parent of Spark's Python workers, in local runs: PySpark's own, but for one traceback that says nothing.

Spark closes the socket of a worker that was idle for a minute. The worker then ends, as it should, and PySpark prints
how its last flush failed. The program that starts workers puts this module in the place of PySpark's (overlay.py).
"""

import os
from typing import Any

from pyspark import daemon

_serve = daemon.worker


def worker(sock: Any, authenticated: Any) -> int:
    """Serve one task; end quietly where nobody listens any more."""
    try:
        served: int = _serve(sock, authenticated)
    except BrokenPipeError:
        os._exit(1)
    return served


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
