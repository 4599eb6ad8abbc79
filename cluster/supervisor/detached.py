"""A detached supervisor as a process.

Command line: `python -m rmqlab.cluster.supervisor.detached ARGUMENTS FD`.
`rmqlab.cluster.supervisor.detach.run_detached` starts it. It reports the result of the start through the pipe FD, then
serves until it is stopped.
"""

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
    launched = launch(directory / "forkserver.log")

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

    pipe = os.fdopen(int(sys.argv[2]), "w")

    def reply(value: dict[str, Any]) -> None:
        with pipe:
            json.dump(value, pipe)

    async def ready(_cluster: Cluster, document: Document) -> None:
        await trio.lowlevel.checkpoint()
        reply(document)

    log_to_file(directory / "supervisor.log", takes_output=True)
    try:
        spec = cattrs.structure(given["spec"], ClusterSpec)
        run_foreground(spec, ClusterDirectory(directory), ready, forks=ForkServer(*launched), control=given["control"])
    except UpFailedError as exc:
        print(exc, file=sys.stderr)
        if not pipe.closed:
            reply({"error": str(exc)})
        sys.exit(1)


if __name__ == "__main__":
    main()
