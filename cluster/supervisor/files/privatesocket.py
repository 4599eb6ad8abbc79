"""The supervisor's Unix sockets, which only its user can reach."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import trio

from rmqlab.cluster.supervisor.files.directory import ClusterDirectory


@asynccontextmanager
async def private_socket(directory: ClusterDirectory, path: Path, backlog: int) -> AsyncIterator[trio.SocketListener]:
    """Listen at a path of the cluster, and remove the socket at the end.

    A socket that a killed supervisor left is replaced: the caller holds the lock, so none runs. OSError.
    """
    with trio.socket.socket(trio.socket.AF_UNIX) as listening, _removed(directory, path):
        await listening.bind(os.fspath(path))
        path.chmod(0o600)  # noqa: ASYNC240 -- as quick as the bind
        listening.listen(backlog)
        yield trio.SocketListener(listening)


@contextmanager
def _removed(directory: ClusterDirectory, path: Path) -> Iterator[None]:
    """Remove the file now, and at the end if the path is still the cluster's."""
    path.unlink(missing_ok=True)
    try:
        yield
    finally:
        if not directory.is_lost():
            path.unlink(missing_ok=True)
