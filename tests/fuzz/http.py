"""Requests to the control API: odd heads, paths, queries, framing and JSON."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import attrs

from rmqlab.cluster.control.endpoint import Endpoint
from rmqlab.cluster.control.endpoints import ENDPOINTS
from rmqlab.cluster.control.inputs import Fields
from tests.fuzz.odd import Odd

METHODS = ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "TRACE", "CONNECT", "get", "\x00")
HOSTS = ("127.0.0.1", "127.0.0.1", "127.0.0.1", "localhost:1", "[::1]", "evil.example", "127.0.0.1.evil.example", "")
HEADERS = (
    *(
        "Origin: http://evil.example",
        "Expect: 100-continue",
        "Upgrade: h2c",
        "Connection: upgrade",
        "Host: evil.example",
    ),
    *("Content-Length: 7", "Content-Length: -1", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "X: a\r\n b"),
    *("Content-Encoding: gzip", "Authorization: Basic x", "X: \x1b[2J", "A: " + "a" * 20_000),
)
PLAYED = ("events", "faults", "status", "wait")
"""Endpoints that requests of the fuzzer reach; of the others only the checks of their fields are played."""


async def _do_nothing(_cluster: Any, _arguments: Mapping[str, Any], _send: Any) -> None:
    return None


ENDPOINTS_OF_FUZZER = [
    endpoint if endpoint.name in PLAYED else attrs.evolve(endpoint, call=_do_nothing) for endpoint in ENDPOINTS
]


def request(odd: Odd, token: str) -> bytes:
    """One request: to a path that exists, mostly."""
    endpoint = odd.choice(ENDPOINTS)
    method = endpoint.method if odd.often(0.9) else odd.choice(METHODS)
    body = _body(odd, endpoint) if endpoint.body is not None or odd.often(0.05) else b""
    lines = [
        f"{method} {_target(odd, endpoint)} HTTP/{'1.1' if odd.often(0.97) else odd.choice(('1.0', '2.0', '9'))}",
        f"Host: {odd.choice(HOSTS)}",
        f"Authorization: Bearer {token if odd.often(0.9) else odd.text()[:100]}",
        f"Content-Type: {'application/json' if odd.often(0.95) else 'text/plain'}",
        *([odd.choice(HEADERS)] if odd.often(0.2) else []),
    ]
    if odd.often(0.3):
        lines.append("Transfer-Encoding: chunked")
        body = _chunked(odd, body)
    else:
        lines.append(f"Content-Length: {len(body) if odd.often(0.97) else odd.choice((0, 10**19, len(body) + 5))}")
    data = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + body
    return odd.damaged(data) if odd.often(0.1) else data


def _target(odd: Odd, endpoint: Endpoint) -> str:
    path = endpoint.path
    if "{" in path:
        path = path.partition("{")[0] + (quote(odd.text(), errors="replace") if odd.often(0.8) else odd.text())
    if endpoint.query is None and odd.often(0.9):
        return path
    names = endpoint.query.fields.__struct_fields__ if isinstance(endpoint.query, Fields) else ("x",)
    pairs = [f"{odd.choice(names)}={quote(odd.text()[:500], errors='replace')}" for _ in range(odd.randrange(3))]
    return f"{path}?{'&'.join(pairs)}"


def _body(odd: Odd, endpoint: Endpoint) -> bytes:
    kind = endpoint.body.fields if isinstance(endpoint.body, Fields) else None
    if kind is not None:
        return odd.json_body(kind)
    value: Any = {"type": odd.choice(("link", "disk", "clock", "request", "isolate", "lnk")), "kind": "latency"}
    for name in ("src", "dst", "target", "millis", "percent", "code"):
        value |= {name: odd.choice((odd.text(), -1, 2**63, 10**400, 1e300, [], {}, None, "broker-a"))}
    text = json.dumps(odd.spoiled(value)).encode("utf-8", "surrogatepass")
    return odd.damaged(text) if odd.often(0.1) else text


def _chunked(odd: Odd, body: bytes) -> bytes:
    size = odd.choice((1, 7, 1000, 65_536))
    parts = [body[at : at + size] for at in range(0, min(len(body), 200 * size), size)]
    framed = b"".join(b"%x%s\r\n%s\r\n" % (len(part), odd.choice((b"", b"", b";x=y")), part) for part in parts)
    return framed + odd.choice((b"0\r\n\r\n", b"0\r\n\r\n", b"", b"fffffffffffffffffff\r\n", b"-1\r\n"))


def probe(token: str) -> bytes:
    """A well-formed request."""
    return f"GET /v1/faults HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
