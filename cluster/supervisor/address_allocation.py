"""Finds addresses for a cluster on this machine: the recorded ones, or free ones."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import attrs

from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.plan.topology import SHIFT_STEP, ClusterSpec, Placement, blocks_of, nodes_of, place
from rmqlab.cluster.supervisor.ports import (
    PortTakenError,
    check_free,
    claim_shift,
    claim_subnet,
    has_loopback_network,
    loopback_network,
)

_SUBNETS = range(1, 255)
_MOST_MORE = 4
_SHIFTS = range(0, 40_000, SHIFT_STEP)


class AddressesClaimedError(PortTakenError):
    """Another cluster uses the addresses of this one."""


@attrs.frozen
class AddressAllocation:
    """The addresses of a cluster."""

    placement: Placement
    moved_from: str = ""
    """Its previous addresses if they have changed; else empty."""
    reason: str = ""
    """The reason for the change."""

    @property
    def note(self) -> str:
        """One line about a change of addresses, for the user; empty without a change."""
        if not self.moved_from:
            return ""
        return (
            f"addresses moved from {self.moved_from} to {addresses_of(self.placement)}: {self.reason}. The stores are"
            " kept; clients need the new NAMESRV_ADDR, and earlier offset message ids contain the old addresses"
        )


@contextmanager
def allocate_addresses(
    spec: ClusterSpec, directory: ClusterDirectory, record: Record | None
) -> Iterator[AddressAllocation]:
    """Hold addresses at which all ports are free, while the block runs.

    Recorded addresses are reused, unless another cluster has claimed them: then the result contains the new ones and
    the reason. A port used by any other process is an error: PortTakenError names the process.
    """
    is_single = spec.single_address or not has_loopback_network()
    free = _shifts(directory) if is_single else _subnets(directory)
    if record is not None and (record.placement.subnet is None) == is_single:
        before = place(spec, record.placement)
        if blocks_of(before) > len(before.more_subnets):
            before = _with_room(before, _free_subnets(directory))
        found, claim = _again(spec, directory, before, free)
    else:
        placement, claim = _first_free(spec, directory, free)
        found = AddressAllocation(placement)
    with claim:
        yield found


def addresses_of(placement: Placement) -> str:
    """Return a short description of a placement's addresses."""
    if placement.subnet is None:
        return f"127.0.0.1 with ports shifted by {placement.shift}"
    return ", ".join(f"{placement.network}.{subnet}.*" for subnet in _subnets_of(placement))


def _again(
    spec: ClusterSpec, directory: ClusterDirectory, before: Placement, free: Iterable[Placement]
) -> tuple[AddressAllocation, ExitStack]:
    try:
        return AddressAllocation(before), _hold(spec, before, directory)
    except AddressesClaimedError as exc:
        others = (attrs.evolve(empty, slots=before.slots) for empty in free)  # each node keeps its last number
        try:
            placement, claim = _first_free(spec, directory, others)
        except PortTakenError:
            raise PortTakenError(f"{exc}; and no other is free") from None
        return AddressAllocation(placement, addresses_of(before), str(exc)), claim


def _hold(spec: ClusterSpec, placement: Placement, directory: ClusterDirectory) -> ExitStack:
    """Claim addresses at which all ports are free.

    PortTakenError names the holders of taken ports.
    """
    claim = _claim(placement, directory)
    try:
        check_free(nodes_of(spec, placement))
    except PortTakenError:
        claim.close()
        raise
    return claim


def _claim(placement: Placement, directory: ClusterDirectory) -> ExitStack:
    with ExitStack() as claims:
        try:
            if placement.subnet is None:
                claims.enter_context(claim_shift(placement.shift))
            for subnet in _subnets_of(placement):
                claims.enter_context(claim_subnet(placement.network, subnet))
        except PortTakenError as exc:
            what = f"the addresses of cluster {directory.path.name}, {addresses_of(placement)}"
            raise AddressesClaimedError(f"{what}, are claimed by another cluster: {exc}") from None
        return claims.pop_all()


def _subnets_of(placement: Placement) -> tuple[int, ...]:
    """Return the numbers C of a cluster's addresses; none at a single address."""
    return () if placement.subnet is None else (placement.subnet, *placement.more_subnets)


def _with_room(placement: Placement, others: Iterable[int]) -> Placement:
    """Return a placement with as many further subnets as its slots need, of these."""
    unused = (subnet for subnet in others if subnet not in _subnets_of(placement))
    lacking = blocks_of(placement) - len(placement.more_subnets)
    more = tuple(itertools.islice(unused, max(lacking, 0)))
    if len(more) < lacking:
        raise PortTakenError("no range of addresses is left; clusters that are down keep theirs until purged")
    return attrs.evolve(placement, more_subnets=(*placement.more_subnets, *more))


def _first_free(
    spec: ClusterSpec, directory: ClusterDirectory, places: Iterable[Placement]
) -> tuple[Placement, ExitStack]:
    for empty in places:
        placement = _trimmed(place(spec, empty))
        with contextlib.suppress(PortTakenError):
            return placement, _hold(spec, placement, directory)
    raise PortTakenError("no address or range of ports is left; clusters that are down keep theirs until purged")


def _trimmed(placement: Placement) -> Placement:
    return attrs.evolve(placement, more_subnets=placement.more_subnets[: blocks_of(placement)])


def _subnets(directory: ClusterDirectory) -> Iterator[Placement]:
    network = loopback_network()
    free = _free_subnets(directory)
    for index, subnet in enumerate(free):
        others = (*free[index + 1 :], *free[:index])
        yield Placement(network=network, subnet=subnet, more_subnets=others[:_MOST_MORE])


def _free_subnets(directory: ClusterDirectory) -> list[int]:
    """Return the numbers C that no other cluster of this home has."""
    network = loopback_network()
    placements = [sibling.placement for sibling in directory.siblings()]
    recorded = {subnet for placement in placements if placement.network == network for subnet in _subnets_of(placement)}
    # The first candidate depends on the path, so that clusters of different homes rarely compete.
    digest = hashlib.sha256(str(directory.path.absolute()).encode()).digest()
    first = int.from_bytes(digest[:4], "big")
    candidates = (_SUBNETS[(first + step) % len(_SUBNETS)] for step in range(len(_SUBNETS)))
    return [subnet for subnet in candidates if subnet not in recorded]


def _shifts(directory: ClusterDirectory) -> Iterator[Placement]:
    recorded = {sibling.placement.shift for sibling in directory.siblings() if sibling.placement.subnet is None}
    return (Placement(shift=shift) for shift in _SHIFTS if shift not in recorded)
