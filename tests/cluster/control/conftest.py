"""A control API over streams in memory, and a client that sends any bytes."""

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
import pytest
import trio
from trio.testing import memory_stream_pair

from rmqlab.cluster.control.access import ControlAccess
from rmqlab.cluster.control.app import ControlApp
from rmqlab.cluster.control.server import ControlServer, Limits
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.supervisor import Supervisor

TOKEN = "a-token-for-these-tests"


@attrs.frozen
class Got:
    """A response as received."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> Any:
        return self.document["error"]


def parse(data: bytes) -> Got:
    """Parse a response without chunks."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Got(int(first.split()[1]), headers, body)


def request_bytes(
    method: str,
    target: str,
    body: Any = None,
    *,
    token: str | None = TOKEN,
    host: str = "127.0.0.1:8080",
    **headers: str,
) -> bytes:
    """Return a request. Headers have `_` for `-`.

    `body` is sent as JSON unless it is bytes.
    """
    data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
    fields = {
        "Host": host,
        **({} if token is None else {"Authorization": f"Bearer {token}"}),
        **({} if body is None else {"Content-Type": "application/json", "Content-Length": str(len(data))}),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items() if value)]
    return "\r\n".join([*lines, "", ""]).encode() + data


@attrs.define(eq=False)
class Api:
    """The server, and the requests of tests to it."""

    server: ControlServer
    nursery: trio.Nursery

    @property
    def supervisor(self) -> Supervisor:
        return self.server.app.cluster.supervisor

    def connect(self) -> trio.StapledStream[Any, Any]:
        """Return the client's end of a new connection."""
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self.server.serve_connection, theirs)
        return ours

    async def send(self, data: bytes, *, pieces: int = 1) -> Got:
        """Send a request, in pieces of about equal size; return the response."""
        stream = self.connect()
        step = max(1, -(-len(data) // pieces))
        for at in range(0, len(data), step):
            await stream.send_all(data[at : at + step])
            await trio.testing.wait_all_tasks_blocked()
        received = b""
        while part := await stream.receive_some():
            received += part
        return parse(received)

    async def ask(self, method: str, target: str, body: Any = None, **more: Any) -> Got:
        """Send a request as `request_bytes` makes it; return the response."""
        return await self.send(request_bytes(method, target, body, **more))


def server_of(supervisor: Supervisor, limits: Limits | None = None) -> ControlServer:
    """Return a server for the cluster of a supervisor."""
    access = ControlAccess(url="http://127.0.0.1:8080", token=TOKEN, host="127.0.0.1")
    return ControlServer(ControlApp(Cluster(supervisor), access), limits or Limits())


@pytest.fixture
def api(supervisor: Supervisor, nursery: trio.Nursery) -> Api:
    return Api(server_of(supervisor), nursery)
