"""Reactions of a slave to a reported master and to a replication connection."""

from collections.abc import Callable

import attrs

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.metadata import MetadataSync
from rmqlab.broker.registration import Registration
from rmqlab.broker.tasks import TaskStarter


@attrs.frozen(eq=False)
class MasterFollower:
    """Keeps `KnownMaster` up to date (`rmqlab.broker.registration.MasterObserver`)."""

    known: KnownMaster
    sync: MetadataSync
    tasks: TaskStarter
    emit: Callable[..., None]

    def master_reported(self, address: str | None, ha_address: str | None) -> None:
        """Apply the master's addresses from a registration reply.

        Source: remoting-and-nameserver section 5.5.
        """
        if address != self.known.address:
            self.emit("master_known" if address else "master_unknown", master_address=address)
            if address and self.sync.hands_back:
                self.tasks.start_soon(self.sync.sync)  # the task begins after the next line has set the address
        self.known.address = address
        self.known.report_ha_address(ha_address)


@attrs.frozen(eq=False)
class HandbackAtConnect:
    """Observer that hands consumer offsets back when replication connects.

    Implements `rmqlab.broker.ha.slave.ConnectionObserver`.
    """

    known: KnownMaster
    sync: MetadataSync
    registration: Registration
    tasks: TaskStarter

    def master_connected(self) -> None:
        """Hand back the offsets that were committed here.

        This happens before consumers ask the master for them.
        """
        if not self.sync.hands_back:
            return
        if self.known.address is None:  # the nameservers may know the restarted master by now
            self.registration.register_soon()
        else:
            self.tasks.start_soon(self.sync.sync)
