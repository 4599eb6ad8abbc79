"""Detects peers that use another protocol, by their first bytes.

Each detected protocol has a suggested remedy. A frame begins with its length. Each prefix below is a length above the
maximum of 16 MiB, so it is compared only after a frame has been rejected, at no cost for valid frames.
"""

from typing import Final

_HTTP: Final = "HTTP, but this is a RocketMQ remoting port: it serves RocketMQ clients and mqadmin, not web pages"
_TLS: Final = "a TLS handshake, but rmqlab does not support TLS: configure the client for plaintext (tls.enable=false)"
_GRPC: Final = (
    "HTTP/2, as gRPC speaks it, but this is a RocketMQ remoting port: a gRPC client of RocketMQ 5.x needs a proxy,"
    " which 4.9 does not have; use a remoting client (for Java: rocketmq-client)"
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
    (b"HTTP", "an HTTP response: a web server listens at this address, not a RocketMQ broker or nameserver"),
    (b"SSH-", "SSH: this address is not that of a RocketMQ broker or nameserver"),
    (b"\x15\x03", "a TLS alert: the server expects TLS, which rmqlab does not support"),
    (b"\x16\x03", _TLS),
)


def detect_protocol(data: bytes) -> str | None:
    """Return the protocol that `data` begins with and a remedy; None if unknown."""
    return next((text for beginning, text in _BEGINNINGS if data.startswith(beginning)), None)


MAX_HOSTS: Final = 1000
"""Maximum number of remembered hosts; then all are dropped and can be logged once more."""


class OncePerHost:
    """Detects the first connection of each host. Memory is bounded by MAX_HOSTS."""

    def __init__(self) -> None:
        self._hosts: set[str] = set()

    def is_first(self, peer: str) -> bool:
        """Return True if the host of a peer, `host:port`, is new, and remember it."""
        host = peer.rpartition(":")[0]
        if host in self._hosts:
            return False
        if len(self._hosts) >= MAX_HOSTS:
            self._hosts.clear()
        self._hosts.add(host)
        return True
