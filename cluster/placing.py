"""Find a place for a cluster on this machine: the recorded one, or one that nobody holds."""

import contextlib
import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.directory import ClusterDirectory, Record
from cluster.ports import PortTakenError, check_free, claim_subnet, has_loopback_network
from cluster.topology import SHIFT_STEP, ClusterSpec, Placement, nodes_of, place

_SUBNETS = range(1, 255)
_SHIFTS = range(0, 40_000, SHIFT_STEP)


@contextmanager
def placed(spec: ClusterSpec, directory: ClusterDirectory, record: Record | None) -> Iterator[Placement]:
    """Hold a place where all ports are free. A recorded one is used or refused, never quietly left for another."""
    is_single = spec.single_address or not has_loopback_network()
    with contextlib.ExitStack() as stack:
        if record is not None and (record.placement.subnet is None) == is_single:
            placement = place(spec, record.placement)
            if placement.subnet is not None:
                stack.enter_context(_recorded_claim(placement.subnet, directory))
            check_free(nodes_of(spec, placement))
        elif is_single:
            placement = _free_shift(spec, directory)
        else:
            placement, claim = _free_subnet(spec, directory)
            stack.enter_context(claim)
        yield placement


def _recorded_claim(subnet: int, directory: ClusterDirectory) -> socket.socket:
    try:
        return claim_subnet(subnet)
    except PortTakenError as exc:
        what = f"the addresses of cluster {directory.path.name}, 127.77.{subnet}.*, are claimed by another cluster"
        raise PortTakenError(f"{what}: {exc}") from None


def _free_subnet(spec: ClusterSpec, directory: ClusterDirectory) -> tuple[Placement, socket.socket]:
    recorded = {sibling.placement.subnet for sibling in directory.siblings()}
    # Where to begin depends on the path, so that clusters of several homes rarely want the same.
    digest = hashlib.sha256(str(directory.path.absolute()).encode()).digest()
    first = int.from_bytes(digest[:4], "big")
    for step in range(len(_SUBNETS)):
        subnet = _SUBNETS[(first + step) % len(_SUBNETS)]
        if subnet in recorded:
            continue
        placement = place(spec, Placement(subnet=subnet))
        with contextlib.suppress(PortTakenError):
            claim = claim_subnet(subnet)
            try:
                check_free(nodes_of(spec, placement))
            except PortTakenError:
                claim.close()
                continue
            return placement, claim
    raise PortTakenError("all of 127.77.1.* to 127.77.254.* is in use; clusters that are down keep theirs until purged")


def _free_shift(spec: ClusterSpec, directory: ClusterDirectory) -> Placement:
    recorded = {sibling.placement.shift for sibling in directory.siblings() if sibling.placement.subnet is None}
    for shift in _SHIFTS:
        if shift in recorded:
            continue
        placement = place(spec, Placement(shift=shift))
        with contextlib.suppress(PortTakenError):
            check_free(nodes_of(spec, placement))
            return placement
    raise PortTakenError("no free range of ports at 127.0.0.1; clusters that are down keep theirs until purged")
