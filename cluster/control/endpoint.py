"""Entries of the table of endpoints, and the lookup by method and path."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import attrs

from rmqlab.cluster.control.inputs import Input
from rmqlab.cluster.control.messages import SendItem, reject
from rmqlab.cluster.lab import Cluster
from rmqlab.runtime.text.nearmiss import near_miss

Arguments = Mapping[str, Any]
Call = Callable[[Cluster, Arguments, SendItem], Awaitable[Any]]

OPENAPI_PATH = "/openapi.json"


@attrs.frozen(kw_only=True)
class Endpoint:
    """The action of a method and a path."""

    name: str
    """Its `operationId`."""
    method: str
    path: str
    """With `{name}` for a part that is an argument."""
    summary: str
    call: Call
    """The function of the request's arguments. Its result is the document; of a stream, it sends the items."""
    query: Input | None = None
    body: Input | None = None
    returns: Any
    """The type of the document, or of an item of the stream."""
    takes_account: bool = False
    """True if brokers with access control reject it without an account."""
    failures: tuple[int, ...] = ()
    """Response statuses in addition to those of every endpoint."""
    is_stream: bool = False

    def match(self, path: str) -> dict[str, str] | None:
        """Return the arguments in a path; None if it is another endpoint's."""
        ours, given = self.path.split("/"), path.split("/")
        if len(ours) != len(given):
            return None
        arguments = {}
        for part, value in zip(ours, given, strict=True):
            if part.startswith("{") and value:
                arguments[part[1:-1]] = unquote(value)
            elif part != value:
                return None
        return arguments


def find_endpoint(endpoints: Sequence[Endpoint], method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
    """Return the endpoint of a request, and the arguments in its path.

    Rejected with 404 and a near miss, or with 405 and the methods of the path.
    """
    found = [(endpoint, arguments) for endpoint in endpoints if (arguments := endpoint.match(path)) is not None]
    if not found:
        known = [OPENAPI_PATH, *(endpoint.path for endpoint in endpoints)]
        hint = near_miss(path, known) or f"; {OPENAPI_PATH} lists all paths"
        reject(404, "unknown_path", f"no such path{hint}")
    meant = next((pair for pair in found if pair[0].method == method), None)
    if meant is None:
        methods = ", ".join(sorted({endpoint.method for endpoint, _ in found}))
        reject(405, "wrong_method", f"{method} is not possible here; expected {methods}", Allow=methods)
    return meant
