"""Starts the control API of a cluster."""

import contextlib
import socket
from collections.abc import Iterator

import attrs
import trio

from rmqlab.cluster.control.access import (
    ControlAccess,
    access_to,
    chosen_token,
    listening_socket,
    parse_control_address,
    write_access,
)
from rmqlab.cluster.control.app import ControlApp
from rmqlab.cluster.control.server import ControlServer
from rmqlab.cluster.lab import Cluster

_BACKLOG = 64


@attrs.frozen
class ControlApi:
    """A control API that listens, but does not yet serve."""

    access: ControlAccess
    _listening: socket.socket

    async def serve(self, cluster: Cluster, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve a cluster until cancelled.

        The file with address and token exists meanwhile.
        """
        directory = cluster.supervisor.directory
        path = directory.control_path
        write_access(path, self.access)
        try:
            task_status.started()
            await ControlServer(ControlApp(cluster, self.access)).serve(self._listening)
        finally:
            if not directory.is_lost():
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_control_api(address: str) -> Iterator[ControlApi]:
    """Listen at an address as `parse_control_address` accepts it. ControlAddressError."""
    parsed, token = parse_control_address(address), chosen_token()
    with listening_socket(parsed, _BACKLOG) as listening:
        yield ControlApi(access_to(listening, parsed, token), listening)
