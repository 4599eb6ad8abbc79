"""Peers that speak another protocol: what they are told apart by, and what was probably meant.

A frame begins with its length. Each of the beginnings below is a length of more than 16 MiB, which no frame has: they
are looked at only where a frame is refused anyway, at no cost to well-formed ones.
"""

from typing import Final

_HTTP: Final = "HTTP, but this is a RocketMQ remoting port: it serves RocketMQ clients and mqadmin, no web pages"
_TLS: Final = "a TLS handshake, but rmqlab has no TLS: let the client use plaintext (tls.enable=false)"
_GRPC: Final = (
    "HTTP/2, as gRPC speaks it, but this is a RocketMQ remoting port: a gRPC client of RocketMQ 5.x needs a proxy, which"
    " 4.9 has not; use a remoting client (for Java: rocketmq-client)"
)
_BEGINNINGS: Final = (
    (b"PRI ", _GRPC),
    (b"GET ", _HTTP),
    (b"POST", _HTTP),
    (b"PUT ", _HTTP),
    (b"HEAD", _HTTP),
    (b"DELE", _HTTP),
    (b"OPTI", _HTTP),
    (b"PATC", _HTTP),
    (b"CONN", _HTTP),
    (b"TRAC", _HTTP),
    (b"HTTP", "an answer in HTTP: a web server listens at this address, not a RocketMQ broker or nameserver"),
    (b"SSH-", "SSH: this address is not that of a RocketMQ broker or nameserver"),
    (b"\x15\x03", "a TLS alert: the server expects TLS, which rmqlab has not"),
    (b"\x16\x03", _TLS),
)


def stranger(data: bytes) -> str | None:
    """Name the protocol that bytes begin with, and what to do. None where it is not known."""
    return next((text for beginning, text in _BEGINNINGS if data.startswith(beginning)), None)


MAX_HOSTS: Final = 1000
"""Hosts that are remembered; then all are forgotten, and may be logged once more."""


class OncePerHost:
    """Says whether a host is seen for the first time. Bounded."""

    def __init__(self) -> None:
        self._hosts: set[str] = set()

    def is_first(self, peer: str) -> bool:
        """Look at a peer, `host:port`, and remember its host."""
        host = peer.rpartition(":")[0]
        if host in self._hosts:
            return False
        if len(self._hosts) >= MAX_HOSTS:
            self._hosts.clear()
        self._hosts.add(host)
        return True
