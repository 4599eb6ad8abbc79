"""The two compared clusters: same settings and names, no background activity."""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from tests.interop import rawrequest
from tests.interop.differential.case import Site
from tests.interop.differential.normal import Names, read_json
from tests.interop.java import Java
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.rawrequest import split_address
from tests.interop.realrocketmq import SMALL_FILES, RealBroker, RealNameserver
from tests.interop.server import BrokerServer, Server
from tests.interop.waiting import wait_until

_SETTINGS: Mapping[str, object] = {
    **SMALL_FILES,
    # Logs are compared: nothing may be written but what a request asks for.
    "messageDelayLevel": " ".join(["2h"] * 18),
    "transactionCheckInterval": 3_600_000,
}


_METADATA = (21, 43, 45, 201)
"""Requests for topics, consumer offsets, delay offsets and groups."""


def _log_end(broker: BrokerServer) -> str:
    return rawrequest.runtime_info(broker.address)["commitLogMaxOffset"]


@attrs.frozen
class Pair:
    """A system's cluster: an ASYNC_MASTER and a slave.

    A SYNC_MASTER's acknowledgements would take their own time.
    """

    nameserver: Server
    master: BrokerServer
    slave: BrokerServer

    def site(self) -> Site:
        addresses = {"namesrv": self.nameserver.address, "master": self.master.address, "slave": self.slave.address}
        host, port = split_address(self.master.address)
        addresses["vip"] = f"{host}:{port - 2}"
        texts = {address: name.upper() for name, address in addresses.items()}
        for name, broker in (("MASTER", self.master), ("SLAVE", self.slave)):
            texts[broker.ha_address] = f"{name}_HA"
            texts[f"7F000001{split_address(broker.address)[1]:08X}"] = f"{name}_HEX"
            texts[str(broker.store)] = f"{name}_STORE"
        return Site(addresses, Names(texts))

    def wait_synced(self) -> None:
        """Until the slave has the master's log, and its four kinds of metadata."""
        for code in _METADATA:
            wait_until(functools.partial(self._agree, code), f"the slave has the master's answer to {code}", 60)
        wait_until(
            lambda: len({_log_end(broker) for broker in (self.master, self.slave)}) == 1, "the slave has the log"
        )

    def _agree(self, code: int) -> bool:
        masters, slaves = (rawrequest.ask(broker.address, code, {}).body for broker in (self.master, self.slave))
        return bool(read_json(masters) == read_json(slaves))


@contextlib.contextmanager
def pair(
    system: str, java: Java, directory: Path, settings: Mapping[str, object] = MappingProxyType({})
) -> Iterator[Pair]:
    """Start the three servers of `real` or `ours`."""
    with contextlib.ExitStack() as stack:
        nameserver = stack.enter_context(
            RealNameserver(java, directory) if system == "real" else OurNameserver(directory)
        )
        brokers: list[BrokerServer] = []
        for broker_id in (0, 1):
            options: dict[str, Any] = {
                "broker_id": broker_id,
                "role": "ASYNC_MASTER",
                "settings": {**_SETTINGS, **settings},
            }
            broker: BrokerServer = (
                RealBroker(java, directory, nameserver.address, **options)
                if system == "real"
                else OurBroker(directory, nameserver.address, **options)
            )
            brokers.append(stack.enter_context(broker))
        yield Pair(nameserver, *brokers)
