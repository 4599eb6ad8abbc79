"""Makes the OpenAPI document from the table of endpoints.

It has no information about the cluster, because it is served without a token.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rmqlab.cluster.control import outputs
from rmqlab.cluster.control.account import ACCOUNT_HEADER, ACCOUNT_SCHEMA
from rmqlab.cluster.control.endpoint import Endpoint
from rmqlab.cluster.control.endpoints import ENDPOINTS, PATHS
from rmqlab.cluster.control.inputs import GROUP_SCHEMA, TOPIC_SCHEMA, Input
from rmqlab.cluster.control.messages import EVENTS_TYPE, JSON_TYPE

Schema = dict[str, Any]

API_VERSION = "1"
"""Increases when an endpoint or a member is removed or changes its meaning; `/v1` with it."""
_REFERENCE = "#/components/schemas/{name}"
_STATUSES: Mapping[int, str] = {
    400: "The request is not valid HTTP or JSON, or its Host is missing.",
    401: "The token is missing or wrong.",
    404: "No such path, target, fault, metric, topic, group, message or setting.",
    405: "The path has no such method.",
    408: "The request was not complete in time.",
    409: "Impossible in the state of the node, topic or group; for nodes, `possible` lists the valid commands.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    421: "The Host is not one of this server.",
    422: "A value is invalid; `field` names it.",
    431: "The head of the request is too large.",
    500: "A defect of rmqlab; `rmqlab status` counts it.",
    502: "A node or server did not carry out the request.",
    503: "Too many connections or streams, or the cluster stops.",
    504: "Not true, or not done, in time.",
}
_ALWAYS = (400, 401, 404, 405, 408, 413, 415, 421, 422, 431, 500, 503)


def openapi_document() -> Schema:
    """Return the document, version 3.1."""
    kinds = [outputs.Error, *(endpoint.returns for endpoint in ENDPOINTS)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    returned = dict(zip((endpoint.name for endpoint in ENDPOINTS), schemas[1:], strict=True))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rmqlab control API",
            "version": API_VERSION,
            "description": "Commands to a running cluster. docs/control-api.md has examples.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": {
            path: {endpoint.method.lower(): _operation(endpoint, returned[endpoint.name]) for endpoint in endpoints}
            for path, endpoints in PATHS.items()
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {str(status): _error(text) for status, text in _STATUSES.items()},
        },
    }


def _operation(endpoint: Endpoint, returned: Schema) -> Schema:
    summary, _, more = endpoint.summary.partition("\n")
    operation: Schema = {"operationId": endpoint.name, "summary": summary}
    if more.strip():
        operation["description"] = " ".join(more.split())
    if parameters := [
        *_path_parameters(endpoint.path),
        *_query_parameters(endpoint.query),
        *_account_parameter(endpoint),
    ]:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON_TYPE: {"schema": endpoint.body.schema()}}}
    operation["responses"] = {"200": _success(endpoint, returned), **_failures(endpoint)}
    return operation


def _success(endpoint: Endpoint, returned: Schema) -> Schema:
    if endpoint.is_stream:
        text = "Server-sent events: `data` is one document; the event `error` ends the stream early."
        return {"description": text, "content": {EVENTS_TYPE: {"schema": {"type": "string"}}}}
    return {"description": "Done.", "content": {JSON_TYPE: {"schema": returned}}}


def _failures(endpoint: Endpoint) -> Schema:
    statuses = sorted({*_ALWAYS, *endpoint.failures})
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _error(text: str) -> Schema:
    return {"description": text, "content": {JSON_TYPE: {"schema": {"$ref": _REFERENCE.format(name="Error")}}}}


def _path_parameters(path: str) -> Sequence[Schema]:
    schemas = {"topic": TOPIC_SCHEMA, "group": GROUP_SCHEMA}
    any_text = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": schemas.get(name, any_text)}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _account_parameter(endpoint: Endpoint) -> Sequence[Schema]:
    if not endpoint.takes_account:
        return ()
    text = "ACCESS_KEY:SECRET_KEY of an account, where the cluster has access control."
    return [{"name": ACCOUNT_HEADER, "in": "header", "required": False, "schema": ACCOUNT_SCHEMA, "description": text}]


def _query_parameters(query: Input | None) -> Sequence[Schema]:
    if query is None:
        return ()
    schema = query.schema()
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": {key: part for key, part in value.items() if key != "description"},
            **({"description": value["description"]} if "description" in value else {}),
        }
        for name, value in schema["properties"].items()
    ]
