"""The broker's disk, with the disk faults in force."""

import contextlib
from collections.abc import Iterator

from rmqlab.faults.disk.hook import DiskFaults
from rmqlab.faults.process import following
from rmqlab.runtime.net.node_faults import NodeFaults
from rmqlab.store.files.configfile import on_disk
from rmqlab.store.files.faulty_disk import FaultyDisk


@contextlib.contextmanager
def open_faulty_disk(faults: NodeFaults) -> Iterator[FaultyDisk]:
    """Yield the broker's disk, with the disk faults of this node's rules.

    The store and the tables use it.
    """
    disk = FaultyDisk()
    with following(faults, DiskFaults(disk.set_effects).follow), on_disk(disk):
        yield disk
