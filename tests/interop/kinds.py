"""Servers by a test's parameter: `ours`, `real` (4.9.7) or `real5` (5.3.3)."""

from pathlib import Path
from typing import Any

from tests.interop.java import Java
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.realrocketmq import RELEASE, RELEASE_5, RealBroker, RealNameserver
from tests.interop.server import BrokerServer, Server

_RELEASES = {"real": RELEASE, "real5": RELEASE_5}


def nameserver(kind: str, java: Java, directory: Path) -> Server:
    """One that is not started yet."""
    if kind == "ours":
        return OurNameserver(directory)
    return RealNameserver(java, directory, release=_RELEASES[kind])


def broker(kind: str, java: Java, directory: Path, namesrv: str, **options: Any) -> BrokerServer:
    """One that is not started yet; options as BrokerServer has them."""
    if kind == "ours":
        return OurBroker(directory, namesrv, **options)
    return RealBroker(java, directory, namesrv, release=_RELEASES[kind], **options)
