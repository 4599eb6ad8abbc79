"""A nameserver and a master without a slave, ours or real, with optional features.

It asks for open transactions every two seconds, filters by SQL92, and stores traces.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.interop.java import Java
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.realrocketmq import SMALL_FILES, RealBroker, RealNameserver
from tests.interop.server import BrokerServer

_SETTINGS: Mapping[str, object] = {
    **SMALL_FILES,
    "transactionCheckInterval": 2000,
    "transactionTimeOut": 1000,
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
}


@contextlib.contextmanager
def lone_master(
    system: str, java: Java, directory: Path, settings: Mapping[str, object] | None = None
) -> Iterator[BrokerServer]:
    """Start both servers of a system, `real` or `ours`.

    More settings of the broker go before those above.
    """
    with RealNameserver(java, directory) if system == "real" else OurNameserver(directory) as nameserver:
        broker: BrokerServer
        both = {**_SETTINGS, **(settings or {})}
        if system == "real":
            broker = RealBroker(java, directory, nameserver.address, role="ASYNC_MASTER", settings=both)
        else:
            broker = OurBroker(directory, nameserver.address, role="ASYNC_MASTER", settings=both)
        with broker:
            yield broker
