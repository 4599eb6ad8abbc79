"""A detached supervisor as a process.

Command line: `python -m rmqlab.cluster.supervisor.detached ORDER REPLY`, two pipes as file descriptors.
`rmqlab.cluster.supervisor.detachedprocess` starts it, or forks it from the command. It imports, reads what to start,
replies with the result of the start, then serves until it is stopped.
"""

import contextlib
import gc
import json
import os
import sys
from pathlib import Path
from typing import IO, Any

gc.disable()  # as in the fork server: the imports below would cause dozens of collections

import cattrs  # noqa: E402
import trio  # noqa: E402

from rmqlab.cluster.supervisor.fork.children import ForkServer  # noqa: E402
from rmqlab.runtime.node.logfile import log_to_file, redirect_output  # noqa: E402


def main() -> None:
    """Run the detached supervisor as a program."""
    order, reply = (int(argument) for argument in sys.argv[1:])
    for descriptor in (order, reply):
        os.set_inheritable(descriptor, False)
    supervise(order, reply)


def supervise(order: int, reply: int) -> None:
    """Run the detached supervisor in this process.

    It reads its order from one pipe, and writes the reply to the other.
    """
    # What is imported by now is a good part of what nodes need: the fork server has it without an import of its own.
    forks = ForkServer.fork_from_here() if sys.platform == "linux" else None
    with os.fdopen(reply, "w") as pipe:
        _serve(order, pipe, forks)


def _serve(order: int, pipe: IO[str], forks: ForkServer | None) -> None:
    from rmqlab.cluster.lab import Cluster  # noqa: PLC0415 -- while the fork server imports, on another processor
    from rmqlab.cluster.supervisor.detach import UpFailedError  # noqa: PLC0415
    from rmqlab.cluster.supervisor.files.directory import ClusterDirectory  # noqa: PLC0415
    from rmqlab.cluster.supervisor.plan.status import Document  # noqa: PLC0415
    from rmqlab.cluster.supervisor.plan.topology import ClusterSpec  # noqa: PLC0415
    from rmqlab.cluster.supervisor.serve import run_foreground  # noqa: PLC0415

    gc.freeze()
    gc.enable()

    def reply(value: dict[str, Any]) -> None:
        with pipe:
            json.dump(value, pipe)

    async def ready(_cluster: Cluster, document: Document) -> None:
        await trio.lowlevel.checkpoint()
        reply(document)

    with os.fdopen(order) as orders:
        text = orders.read()
    if not text:
        sys.exit(0)  # the command has ended: its options were invalid
    given = json.loads(text)
    directory = ClusterDirectory(Path(given["directory"]))
    try:
        redirect_output(directory.supervisor_log)
        log_to_file(directory.supervisor_log, takes_output=True)
        if forks is not None:
            forks.log_to(directory.path / "forkserver.log")
    except OSError as exc:
        reply({"error": f"{exc.filename}: {exc.strerror}"})
        sys.exit(1)
    try:
        spec = cattrs.structure(given["spec"], ClusterSpec)
        run_foreground(spec, directory, ready, forks=forks, control=given["control"])
    except UpFailedError as exc:
        if not pipe.closed:
            reply({"error": str(exc)})
        with contextlib.suppress(OSError):  # a full disk
            print(exc, file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
