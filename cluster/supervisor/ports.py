"""Free addresses of this machine, and the processes that hold taken ones."""

import contextlib
import errno
import os
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from rmqlab.cluster.supervisor.files.directory import SetupError
from rmqlab.cluster.supervisor.plan.topology import CLAIM_SLOT, NETWORK, Node

CLAIM_PORT = 9876
_SHIFT_CLAIM_PORT = 9870  # unused by nodes, whose ports end in 6, 9, 1 and 2
_NETWORK = re.compile(r"127\.[1-9][0-9]{0,2}")
_LISTENING = "0A"
_LONGEST_COMMAND = 120
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class PortTakenError(Exception):
    """Another process listens at the address of a node. The message names the process."""


def loopback_network() -> str:
    """Return the network of new clusters: `$RMQLAB_NETWORK` or 127.77.

    SetupError if it is invalid.
    """
    network = os.environ.get("RMQLAB_NETWORK") or NETWORK
    if not _NETWORK.fullmatch(network) or int(network.partition(".")[2]) > 254:
        raise SetupError(f"RMQLAB_NETWORK is {network!r}: expected 127.1 to 127.254")
    return network


def has_loopback_network() -> bool:
    """Return True if 127.77.x.y can be bound: always on Linux.

    Other systems mostly have 127.0.0.1 only.
    """
    with socket.socket() as probe:
        try:
            probe.bind((f"{loopback_network()}.0.1", 0))
        except OSError:
            return False
    return True


def claim_subnet(network: str, subnet: int) -> socket.socket:
    """Claim 127.77.C for one supervisor.

    Return a socket, so that the claim ends with the process.
    """
    return _claim(f"{network}.{subnet}.{CLAIM_SLOT}", CLAIM_PORT)


def claim_shift(shift: int) -> socket.socket:
    """Claim a range of ports at 127.0.0.1, in the same way."""
    return _claim("127.0.0.1", _SHIFT_CLAIM_PORT + shift)


def check_free(nodes: Iterable[Node]) -> None:
    """PortTakenError, with all holders, if any port of these nodes is taken."""
    taken = []
    for node in nodes:
        for port in node.listen_ports:
            try:
                # As in servers: connections in TIME_WAIT do not count as taken.
                _bind(node.host, port, is_shared=True).close()
            except PortTakenError as exc:
                taken.append(f"{node.name}: {exc}")
    if taken:
        raise PortTakenError("; ".join(taken))


def _claim(host: str, port: int) -> socket.socket:
    claim = _bind(host, port, is_shared=False)  # bind is atomic: only one of two concurrent claims succeeds
    claim.listen(1)  # so that `find_holder` finds it in the kernel's tables
    return claim


def _bind(host: str, port: int, *, is_shared: bool) -> socket.socket:
    probe = socket.socket()
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, is_shared)
        probe.bind((host, port))
    except OSError as exc:
        probe.close()
        if exc.errno == errno.EADDRINUSE:
            raise PortTakenError(f"{host}:{port} is taken by {find_holder(host, port)}") from None
        raise PortTakenError(f"{host}:{port} cannot be used: {exc.strerror}") from None
    return probe


def find_holder(host: str, port: int) -> str:
    """Return the process that listens, as `pid 7, name (command line)` if visible."""
    inodes = {inode for table in _TABLES for inode in _listening_inodes(table, host, port)}
    if inodes:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                if any(_socket_inode(link) in inodes for link in (process / "fd").iterdir()):
                    return _describe(process)
    return "another process"


def _listening_inodes(table: Path, host: str, port: int) -> Iterator[str]:
    ours = {_kernel_form(host), "0" * 8, "0" * 32, "0000000000000000FFFF0000" + _kernel_form(host)}
    with contextlib.suppress(OSError):
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            address, _, hexadecimal = fields[1].rpartition(":")
            if fields[3] == _LISTENING and int(hexadecimal, 16) == port and address in ours:
                yield fields[9]


def _kernel_form(host: str) -> str:
    return socket.inet_aton(host)[::-1].hex().upper()


def _socket_inode(link: Path) -> str:
    with contextlib.suppress(OSError):
        return str(link.readlink()).removeprefix("socket:[").removesuffix("]")
    return ""


def _describe(process: Path) -> str:
    """Return name and command line.

    Forked nodes have the fork server's command line, but their own names.
    """
    name, command = "?", ""
    with contextlib.suppress(OSError):
        name = (process / "comm").read_text().strip()
        command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        command = " ".join(command.split())  # arguments can be scripts of many lines
    return f"pid {process.name}, {name} ({command[:_LONGEST_COMMAND]})"
