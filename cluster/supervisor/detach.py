"""Starts a supervisor that is detached from the terminal.

Imports little, because `up --detach` waits for it.
"""

import json
from collections.abc import Callable
from typing import Any

import cattrs

from rmqlab.cluster.supervisor.detachedprocess import started_process
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, SetupError
from rmqlab.cluster.supervisor.files.logs import last_lines
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec


class UpFailedError(Exception):
    """The cluster did not start; none of its processes is left."""


def run_detached(
    spec: ClusterSpec,
    directory: ClusterDirectory,
    *,
    control: str | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Start a supervisor in a new session, and return the document of its start.

    UpFailedError if it does not start. Calls `meanwhile` while it starts.
    """
    try:
        directory.create()
    except SetupError as exc:
        raise UpFailedError(str(exc)) from None
    log = directory.supervisor_log
    logged = log.stat().st_size if log.exists() else 0
    process = started_process()
    process.send(json.dumps({"spec": cattrs.unstructure(spec), "directory": str(directory.path), "control": control}))
    try:
        meanwhile()
        text = process.receive()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    if not text:
        lines = "".join(f"\n  {line}" for line in last_lines(log, since=logged))
        raise UpFailedError(f"the supervisor ended with status {process.wait()}{lines}")
    document: dict[str, Any] = json.loads(text)
    if "error" in document:
        process.wait()  # when it has ended, no process is left
        raise UpFailedError(document["error"])
    return document
