"""Admits requests, dispatches them to endpoints, and turns errors into responses."""

from collections.abc import Sequence
from typing import Any

import attrs
import trio

from rmqlab.cluster.actions.action import suits
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.apimethods import ClusterClosedError
from rmqlab.cluster.conditions import UnknownConditionError
from rmqlab.cluster.control.access import ControlAccess
from rmqlab.cluster.control.account import account_of
from rmqlab.cluster.control.endpoint import OPENAPI_PATH, Arguments, Endpoint, find_endpoint
from rmqlab.cluster.control.endpoints import ENDPOINTS
from rmqlab.cluster.control.inputs import parse_body, parse_query
from rmqlab.cluster.control.judging import CannotJudgeError
from rmqlab.cluster.control.messages import (
    GONE,
    JSON_TYPE,
    EventStream,
    Head,
    Rejected,
    Reply,
    Response,
    SendItem,
    error_response,
    json_response,
    reject,
)
from rmqlab.cluster.control.openapi import openapi_document
from rmqlab.cluster.lab import Cluster, WaitTimeoutError
from rmqlab.cluster.operate.errors import ConflictError, InvalidOperationError, OperationError, UnknownNameError
from rmqlab.cluster.supervisor.check_settings import BadSettingsError
from rmqlab.cluster.supervisor.fork.children import ForkServerGoneError
from rmqlab.cluster.supervisor.marks import BadMarkError
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.topology import UnknownTargetError
from rmqlab.faults import FaultError
from rmqlab.runtime.bounds import cut_text
from rmqlab.runtime.exceptiongroups import leaves

_LONGEST_ERROR = 10_000
_NAMING = ("target", "condition", "group", "nameserver")
"""Fields whose value can be the name of a node or group that the cluster does not have."""


@attrs.frozen
class Admitted:
    """A request that may send its body."""

    endpoint: Endpoint
    arguments: Arguments
    """Those of path, query and account."""


@attrs.define(eq=False)
class ControlApp:
    """The control API of one cluster, independent of connections."""

    cluster: Cluster
    access: ControlAccess
    endpoints: Sequence[Endpoint] = ENDPOINTS

    def admit(self, head: Head) -> Admitted:
        """Return the endpoint of a request before its body is read.

        `Rejected` with the response to send instead. Without the token, a response says nothing about the cluster.
        """
        if (host := head.header("host")) is None:
            reject(400, "no_host", "expected one header Host")
        if not self.access.accepts_host(host):
            reject(421, "wrong_host", "expected a Host that is an IP address, localhost, or the host of --control")
        path, _, query = head.target.partition("?")
        if path == OPENAPI_PATH and head.method == "GET":
            raise Rejected(json_response(200, openapi_document()))
        if not self.access.accepts_token(head.header("authorization")):
            reject(401, "no_token", "expected the header Authorization: Bearer TOKEN", WWW_Authenticate="Bearer")
        if path == OPENAPI_PATH:
            reject(405, "wrong_method", f"{head.method} is not possible here; expected GET", Allow="GET")
        endpoint, arguments = find_endpoint(self.endpoints, head.method, path)
        if endpoint.body is not None and not _is_json(head.header("content-type")):
            reject(415, "wrong_content_type", f"expected the header Content-Type: {JSON_TYPE}")
        account = {"account": account_of(head)} if endpoint.takes_account else {}
        return Admitted(endpoint, {**parse_query(query, endpoint.query), **arguments, **account})

    async def respond(self, admitted: Admitted, body: bytes) -> Reply:
        """Return the reply to a request. Raises nothing but cancellation."""
        endpoint, arguments = admitted.endpoint, admitted.arguments
        try:
            if endpoint.body is not None:
                arguments = {**arguments, **parse_body(body, endpoint.body)}
            elif body:
                reject(422, "invalid_value", f"{endpoint.method} {endpoint.path}: expected no body")
            if endpoint.is_stream:
                return EventStream(run=lambda send: self._stream(endpoint, arguments, send))
            return json_response(200, await endpoint.call(self.cluster, arguments, _send_nothing))
        except Exception as exc:  # noqa: BLE001 -- a boundary: nothing that a client sends ends the cluster
            return self._failure(endpoint, arguments, exc)

    async def _stream(self, endpoint: Endpoint, arguments: Arguments, send: SendItem) -> Response | None:
        try:
            await endpoint.call(self.cluster, arguments, send)
        except GONE:
            raise
        except Exception as exc:  # noqa: BLE001 -- a boundary, as above
            return self._failure(endpoint, arguments, exc)
        return None

    def _failure(self, endpoint: Endpoint, arguments: Arguments, exc: Exception) -> Response:
        if isinstance(exc, ExceptionGroup):  # of a call with tasks of its own
            exc = next(leaves(exc))
        text = cut_text(str(exc), _LONGEST_ERROR)
        match exc:
            case Rejected():
                return exc.response
            case UnknownTargetError():
                field = next((name for name in _NAMING if name in arguments), None)
                return error_response(404, "unknown_target", text, field=field)
            case UnknownConditionError():
                return error_response(422, "unknown_condition", text, field="condition")
            case BadSettingsError():
                return error_response(422, "invalid_value", text, field="settings")
            case UnknownNameError():
                return error_response(404, "not_found", text)
            case FaultError() | InvalidOperationError() | BadMarkError():
                return error_response(422, "invalid_value", text)
            case CannotJudgeError():
                return error_response(404, "not_found", text, field="metric" if arguments.get("metric") else None)
            case ConflictError():
                return error_response(409, "conflict", text)
            case WrongStateError():
                return error_response(409, "wrong_state", text, possible=self._possible(arguments.get("target")))
            case NodeFailedError() | OperationError():
                return error_response(502, "node_failed", text)
            case ForkServerGoneError() | ClusterClosedError():
                return error_response(503, "stopping", text)
            case WaitTimeoutError() | trio.TooSlowError():
                return error_response(504, "not_in_time", text or "not done in time")
        self.cluster.supervisor.processes.errors.caught(f"control API {endpoint.name}", exc)
        return error_response(500, "internal_error", f"internal error in {endpoint.name}: {type(exc).__name__}: {text}")

    def _possible(self, target: object) -> list[dict[str, Any]]:
        """Return the possible actions on each node of a target.

        Empty if the target names no node any more: another request may have changed roles.
        """
        supervisor = self.cluster.supervisor
        try:
            nodes = supervisor.find(target) if isinstance(target, str) else ()
        except UnknownTargetError:
            return []
        return [
            {
                "node": node.name,
                "state": str(state),
                "actions": [action.name for action in ACTIONS.values() if suits(action, node, state)],
            }
            for node in nodes
            for state in (supervisor.process_state(node.name).state,)
        ]


async def _send_nothing(_item: object) -> None:
    raise AssertionError("only streams send items")


def _is_json(content_type: str | None) -> bool:
    return content_type is not None and content_type.partition(";")[0].strip().lower() == JSON_TYPE
