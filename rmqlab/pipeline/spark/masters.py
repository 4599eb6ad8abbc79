"""Check a Spark master URL before a JVM starts.

Spark takes a minute and 200 lines to report an error.
"""

import os
import re
import socket
from pathlib import Path

from rmqlab.pipeline.errors import NoSparkError
from rmqlab.runtime.text.digits import number_of

LOCAL = "local[*]"
_FORMS = re.compile(
    r"local(\[(\*|\d+)(, *\d+)?\])?|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]|spark://[^/]+|yarn|k8s://\S+"
)
_EXPECTED = "local[*], local[4], spark://host:7077, yarn or k8s://https://host:port"
_YARN_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_CONNECT_SECONDS = 5.0


class NoMasterError(NoSparkError):
    """A master cannot be used.

    Its URL is invalid, no Standalone master listens there, or YARN's address is unknown.

    The text says what to do.
    """


def is_local(master: str) -> bool:
    """Return True if driver and tasks share one JVM on this machine."""
    return master == "local" or master.startswith("local[")


def check_master(master: str) -> None:
    """Raise NoMasterError for a master that cannot be used.

    That is an invalid URL, an unreachable Standalone master, or YARN without configuration.
    """
    if not _FORMS.fullmatch(master):
        connect = "; for Spark Connect open the session yourself" if master.startswith("sc://") else ""
        raise NoMasterError(f"{master!r} is no Spark master; expected {_EXPECTED}{connect}")
    if master.startswith("spark://"):
        _check_standalone(master)
    if master == "yarn":
        _check_yarn()


def _check_yarn() -> None:
    """Raise NoMasterError if no variable names Hadoop's configuration directory."""
    given = {name: place for name in _YARN_VARIABLES if (place := os.environ.get(name))}
    if not given:
        raise NoMasterError(
            f"master yarn needs {' or '.join(_YARN_VARIABLES)}: a directory with the cluster's core-site.xml and"
            " yarn-site.xml, which name its servers"
        )
    if missing := [f"{name}={place}" for name, place in given.items() if not Path(place).is_dir()]:
        raise NoMasterError(
            f"{', '.join(missing)} is not a directory; expected that of core-site.xml and yarn-site.xml"
        )


def _check_standalone(master: str) -> None:
    failures = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not 0 < (number_of(port) or 0) < 2**16:
            raise NoMasterError(f"{master!r}: {address!r} is not host:port; expected spark://host:7077")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError as exc:
            failures.append(f"{address}: {exc.strerror or exc}")
        else:
            return
    raise NoMasterError(
        f"no Spark master responds ({'; '.join(failures)}). Start one (sbin/start-master.sh), correct --master, or"
        f" leave it out to run on this machine"
    )
