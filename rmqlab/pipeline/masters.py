"""Check a Spark master URL before a JVM starts.

Spark takes a minute and 200 lines to report an error.
"""

import re
import socket

from rmqlab.pipeline.errors import NoSparkError

LOCAL = "local[*]"
_FORMS = re.compile(
    r"local(\[(\*|\d+)(, *\d+)?\])?|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]|spark://[^/]+|yarn|k8s://\S+"
)
_EXPECTED = "local[*], local[4], spark://host:7077, yarn or k8s://https://host:port"
_CONNECT_SECONDS = 5.0


class NoMasterError(NoSparkError):
    """A master URL is invalid, or no Standalone master listens there.

    The text says what to do.
    """


def is_local(master: str) -> bool:
    """Return True if driver and tasks share one JVM on this machine."""
    return master == "local" or master.startswith("local[")


def check_master(master: str) -> None:
    """Raise NoMasterError for invalid URLs and unreachable Standalone masters."""
    if not _FORMS.fullmatch(master):
        connect = "; for Spark Connect open the session yourself" if master.startswith("sc://") else ""
        raise NoMasterError(f"{master!r} is no Spark master; expected {_EXPECTED}{connect}")
    if master.startswith("spark://"):
        _check_standalone(master)


def _check_standalone(master: str) -> None:
    failures = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 2**16:
            raise NoMasterError(f"{master!r}: {address!r} is not host:port; expected spark://host:7077")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError as exc:
            failures.append(f"{address}: {exc.strerror or exc}")
        else:
            return
    raise NoMasterError(
        f"no Spark master responds ({'; '.join(failures)}). Start one (sbin/start-master.sh), correct --master, or leave"
        f" it out to run on this machine"
    )
