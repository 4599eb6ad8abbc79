"""A detached supervisor as a process.

Command line: `python -m rmqlab.cluster.supervisor.detached ARGUMENTS FD`.
`rmqlab.cluster.supervisor.detach.run_detached` starts it. It reports the result of the start through the pipe FD, then
serves until it is stopped.
"""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from rmqlab.cluster.supervisor.forklaunch import launch


def main() -> None:
    """Run the detached supervisor."""
    given = json.loads(sys.argv[1])
    os.set_inheritable(int(sys.argv[2]), False)
    directory = Path(given["directory"])
    pipe = os.fdopen(int(sys.argv[2]), "w")

    def reply(value: dict[str, Any]) -> None:
        with pipe:
            json.dump(value, pipe)

    try:
        launched = launch(directory / "forkserver.log")
    except OSError as exc:
        reply({"error": f"{exc.filename}: {exc.strerror}"})
        sys.exit(1)

    # The imports below are slow; the fork server imports its modules in parallel. It always ends with this process.
    import cattrs  # noqa: PLC0415
    import trio  # noqa: PLC0415

    from rmqlab.cluster.lab import Cluster  # noqa: PLC0415
    from rmqlab.cluster.supervisor.children import ForkServer  # noqa: PLC0415
    from rmqlab.cluster.supervisor.detach import UpFailedError  # noqa: PLC0415
    from rmqlab.cluster.supervisor.directory import ClusterDirectory  # noqa: PLC0415
    from rmqlab.cluster.supervisor.serve import run_foreground  # noqa: PLC0415
    from rmqlab.cluster.supervisor.status import Document  # noqa: PLC0415
    from rmqlab.cluster.supervisor.topology import ClusterSpec  # noqa: PLC0415
    from rmqlab.runtime.logfile import log_to_file  # noqa: PLC0415

    async def ready(_cluster: Cluster, document: Document) -> None:
        await trio.lowlevel.checkpoint()
        reply(document)

    log_to_file(directory / "supervisor.log", takes_output=True)
    try:
        spec = cattrs.structure(given["spec"], ClusterSpec)
        run_foreground(spec, ClusterDirectory(directory), ready, forks=ForkServer(*launched), control=given["control"])
    except UpFailedError as exc:
        if not pipe.closed:
            reply({"error": str(exc)})
        with contextlib.suppress(OSError):  # a full disk
            print(exc, file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
