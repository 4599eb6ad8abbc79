"""Address, token and host names of the control API.

The token keeps out other users of the machine. The check of `Host` keeps out web pages whose host name resolves to
this machine (DNS rebinding).
"""

import hmac
import ipaddress
import json
import os
import re
import secrets
import socket
from pathlib import Path

import attrs

from rmqlab.cluster.supervisor.files.private_file import write_private

TOKEN_VARIABLE = "RMQLAB_CONTROL_TOKEN"  # noqa: S105 -- the name of a variable
SHORTEST_TOKEN = 16
LONGEST_TOKEN = 512
_TOKEN_BYTES = 32
_MOST_PORT = 65535
_PORT = re.compile("[0-9]{1,5}")


class ControlAddressError(ValueError):
    """The address or the token is invalid. The text says what was expected."""


@attrs.frozen
class ControlAddress:
    """Where to listen: a host and a port; port 0 is any free port."""

    host: str
    port: int


@attrs.frozen(kw_only=True)
class ControlAccess:
    """Where the control API listens, and what a request needs."""

    url: str
    token: str = attrs.field(repr=False)
    host: str
    """The host of `--control`."""

    def as_json(self) -> dict[str, str]:
        """Return the member `control` of `up --json`."""
        return {"url": self.url, "token": self.token}

    def accepts_token(self, authorization: str | None) -> bool:
        """Return True for `Bearer TOKEN`.

        The time does not depend on how much of the token is right.
        """
        scheme, _, token = (authorization or "").partition(" ")
        given, expected = token.strip().encode("utf-8", "surrogateescape"), self.token.encode()
        return hmac.compare_digest(given, expected) and scheme.lower() == "bearer"

    def accepts_host(self, host: str | None) -> bool:
        """Return True if a header `Host` has a name of this server.

        An IP address, `localhost`, or the host of `--control`.
        """
        if host is None:
            return False
        name = _host_of(host)
        return name.lower() in ("localhost", self.host.lower()) or _is_ip_address(name)


def parse_control_address(text: str) -> ControlAddress:
    """Parse `HOST:PORT`, `[IPv6]:PORT`, `:PORT` or `PORT`. ControlAddressError.

    Without a host, it is 127.0.0.1.
    """
    host, colon, port = text.rpartition(":")
    if not _PORT.fullmatch(port) or int(port) > _MOST_PORT:
        raise ControlAddressError(f"{text}: expected HOST:PORT, such as 127.0.0.1:0; the port is 0 to {_MOST_PORT}")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    return ControlAddress(host or "127.0.0.1", int(port))


def chosen_token() -> str:
    """Return the token of $RMQLAB_CONTROL_TOKEN, else a random one.

    ControlAddressError for one that is too short, or cannot be in a header.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        return secrets.token_urlsafe(_TOKEN_BYTES)
    if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN or not all("!" <= character <= "~" for character in token):
        raise ControlAddressError(
            f"${TOKEN_VARIABLE}: expected {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters of ASCII without spaces"
        )
    return token


def listening_socket(address: ControlAddress, backlog: int) -> socket.socket:
    """Return a socket that listens. ControlAddressError if the address cannot be used."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as exc:
        raise ControlAddressError(f"{address.host}: {exc.strerror or exc}") from None
    except UnicodeError:  # labels that DNS does not have: empty, or longer than 63 bytes
        raise ControlAddressError(f"{address.host}: expected a host name or an IP address") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(backlog)
    except OSError as exc:
        listening.close()
        raise ControlAddressError(f"{address.host}:{address.port}: {exc.strerror or exc}") from None
    return listening


def access_to(listening: socket.socket, address: ControlAddress, token: str) -> ControlAccess:
    """Return how to reach a listening socket."""
    ip, port = listening.getsockname()[:2]
    shown = f"[{ip}]" if ":" in ip else ip
    return ControlAccess(url=f"http://{shown}:{port}", token=token, host=address.host)


def write_access(path: Path, access: ControlAccess) -> None:
    """Write address and token to a file that only its owner can read. OSError."""
    write_private(path, json.dumps(access.as_json()) + "\n")


def _host_of(header: str) -> str:
    """Return the host of `host`, `host:port`, `[IPv6]` or `[IPv6]:port`."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
