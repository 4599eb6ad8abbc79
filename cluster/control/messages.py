"""Messages between the HTTP server and the application. No I/O."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

import attrs
import h11
import trio

from rmqlab.cluster.jsontext import json_text

JSON_TYPE = "application/json"
EVENTS_TYPE = "text/event-stream"

GONE = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, h11.LocalProtocolError)
"""Errors of sending to a client that is gone or does not read."""

SendItem = Callable[[Any], Awaitable[None]]


@attrs.frozen(kw_only=True)
class Head:
    """A request without its body."""

    method: str
    target: str
    """As received: path and query."""
    headers: Mapping[str, tuple[str, ...]]
    """Values by name in lower case."""

    def header(self, name: str) -> str | None:
        """Return a header's value; None if it is missing or given twice."""
        values = self.headers.get(name, ())
        return values[0] if len(values) == 1 else None


@attrs.frozen(kw_only=True)
class Response:
    """A whole response."""

    status: int
    body: bytes
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class EventStream:
    """A response of server-sent events, sent as they become known."""

    run: Callable[[SendItem], Awaitable[Response | None]]
    """Sends items until they end or it is cancelled. Returns the error that ended them early, if any."""


Reply = Response | EventStream


class GoneError(Exception):
    """The client closed the connection before its request was complete."""


class Rejected(Exception):
    """A request is rejected with this response."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def json_response(status: int, document: Any, **headers: str) -> Response:
    """Return a response with a JSON document. Headers have `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=status, body=json_text(document).encode() + b"\n", headers=named)


def error_response(
    status: int, code: str, message: str, *, field: str | None = None, possible: Any = None, **headers: str
) -> Response:
    """Return a response with an error document."""
    error: dict[str, Any] = {"code": code, "message": message, "field": field}
    if possible is not None:
        error["possible"] = possible
    return json_response(status, {"error": error}, **headers)


def reject(status: int, code: str, message: str, *, field: str | None = None, **headers: str) -> NoReturn:
    """Raise `Rejected` with an error document."""
    raise Rejected(error_response(status, code, message, field=field, **headers))
