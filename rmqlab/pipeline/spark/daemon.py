"""Parent of Spark's Python workers in local runs.

It omits a misleading traceback, and speeds up short tasks. PySpark's own is the base. Spark closes the socket of a
worker that was idle for a minute. The worker then ends, as it should, but PySpark prints a traceback of its last flush.
The program that starts workers uses this module instead of PySpark's (spark_home.py).
"""

import os
import sys
from pathlib import Path
from typing import Any

from pyspark import daemon

from rmqlab.pipeline.spark.heap import freeze_imports

_serve = daemon.worker


def worker(sock: Any, authenticated: Any) -> int:
    """Run one task; exit without a traceback if the socket is closed."""
    try:
        served: int = _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)
    freeze_imports()  # PySpark collects garbage next, before the process can begin another task
    return served


if __name__ == "__main__":
    sys.path.append(str(Path.cwd()))  # last, where PySpark has it first: a user's typing.py replaces no module
    daemon.worker = worker
    daemon.manager()
