"""Prints the table of endpoints as docs/control-api.md has it."""

import msgspec

from rmqlab.cluster.control.endpoint import Endpoint
from rmqlab.cluster.control.endpoints import ENDPOINTS
from rmqlab.cluster.control.inputs import Fields


def endpoint_table() -> str:
    """Return a Markdown table: a row for each endpoint."""
    rows = [
        f"| `{endpoint.method} {endpoint.path}` | {_fields_of(endpoint)} | {endpoint.summary.splitlines()[0]} |"
        for endpoint in ENDPOINTS
    ]
    return "\n".join(["| request | fields | what it does |", "|---|---|---|", *rows])


def _fields_of(endpoint: Endpoint) -> str:
    kind = endpoint.body or endpoint.query
    if kind is None:
        return ""
    if isinstance(kind, Fields):
        required_first = sorted(msgspec.structs.fields(kind.fields), key=lambda field: not field.required)
        return " ".join(f"`{field.name}`" for field in required_first)
    return "the values of a [fault](faults.md)"


if __name__ == "__main__":
    print(endpoint_table())
