"""Find a place for a cluster on this machine: the recorded one, or one that nobody holds."""

import contextlib
import hashlib
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from cluster.directory import ClusterDirectory, Record
from cluster.ports import (
    PortTakenError,
    check_free,
    claim_shift,
    claim_subnet,
    has_loopback_network,
    loopback_network,
)
from cluster.topology import SHIFT_STEP, ClusterSpec, Placement, nodes_of, place

_SUBNETS = range(1, 255)
_SHIFTS = range(0, 40_000, SHIFT_STEP)


@contextmanager
def placed(spec: ClusterSpec, directory: ClusterDirectory, record: Record | None) -> Iterator[Placement]:
    """Hold a place where all ports are free. A recorded one is used or refused, never quietly left for another."""
    is_single = spec.single_address or not has_loopback_network()
    if record is not None and (record.placement.subnet is None) == is_single:
        placement = place(spec, record.placement)
        claim = _hold(spec, placement, directory)
    else:
        placement, claim = _first_free(spec, directory, _shifts(directory) if is_single else _subnets(directory))
    with claim:
        yield placement


def _hold(spec: ClusterSpec, placement: Placement, directory: ClusterDirectory) -> socket.socket:
    """Claim a place all of whose ports are free. PortTakenError names the holder of what is not."""
    claim = _claim(placement, directory)
    try:
        check_free(nodes_of(spec, placement))
    except PortTakenError:
        claim.close()
        raise
    return claim


def _claim(placement: Placement, directory: ClusterDirectory) -> socket.socket:
    try:
        if placement.subnet is None:
            return claim_shift(placement.shift)
        return claim_subnet(placement.network, placement.subnet)
    except PortTakenError as exc:
        where = "127.0.0.1" if placement.subnet is None else f"{placement.network}.{placement.subnet}.*"
        what = f"the addresses of cluster {directory.path.name}, {where}, are claimed by another cluster"
        raise PortTakenError(f"{what}: {exc}") from None


def _first_free(
    spec: ClusterSpec, directory: ClusterDirectory, places: Iterable[Placement]
) -> tuple[Placement, socket.socket]:
    for empty in places:
        placement = place(spec, empty)
        with contextlib.suppress(PortTakenError):
            return placement, _hold(spec, placement, directory)
    raise PortTakenError("no address or range of ports is left; clusters that are down keep theirs until purged")


def _subnets(directory: ClusterDirectory) -> Iterator[Placement]:
    network = loopback_network()
    recorded = {(sibling.placement.network, sibling.placement.subnet) for sibling in directory.siblings()}
    # Where to begin depends on the path, so that clusters of several homes rarely want the same.
    digest = hashlib.sha256(str(directory.path.absolute()).encode()).digest()
    first = int.from_bytes(digest[:4], "big")
    for step in range(len(_SUBNETS)):
        subnet = _SUBNETS[(first + step) % len(_SUBNETS)]
        if (network, subnet) not in recorded:
            yield Placement(network=network, subnet=subnet)


def _shifts(directory: ClusterDirectory) -> Iterator[Placement]:
    recorded = {sibling.placement.shift for sibling in directory.siblings() if sibling.placement.subnet is None}
    return (Placement(shift=shift) for shift in _SHIFTS if shift not in recorded)
