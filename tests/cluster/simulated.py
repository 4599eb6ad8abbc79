"""Tests of clusters on simulated machines, with the code of real nodes."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.simulation.host import simulate
from rmqlab.cluster.simulation.play import preload
from rmqlab.cluster.supervisor.host import Host
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.simulation.child import run_in_child

T = TypeVar("T")


def on_cluster(
    directory: Path,
    play: Callable[[Cluster], Awaitable[T]],
    spec: ClusterSpec,
    begins_when: Callable[[Cluster], Awaitable[object]] | None = None,
) -> T:
    """Return what `play` does with a simulated cluster, once `begins_when` has ended."""

    async def run(host: Host) -> T:
        async with open_cluster(spec, directory=directory, host=host) as cluster:
            if begins_when is not None:
                await begins_when(cluster)
            return await play(cluster)

    preload()
    return run_in_child(lambda: simulate("1", run))


def simulated(
    specs: Mapping[str, ClusterSpec], begins_when: Callable[[Cluster], Awaitable[object]] | None = None
) -> Callable[[Callable[[Cluster], Awaitable[None]]], Callable[[Path, ClusterSpec], None]]:
    """Make tests of a function that plays with a cluster.

    One for each specification, by its id.
    """

    def decorate(play: Callable[[Cluster], Awaitable[None]]) -> Callable[[Path, ClusterSpec], None]:
        @pytest.mark.parametrize("spec", [*specs.values()], ids=[*specs])
        def test(tmp_path: Path, spec: ClusterSpec) -> None:
            on_cluster(tmp_path / "lab", play, spec, begins_when)

        test.__name__, test.__doc__ = play.__name__, play.__doc__
        return test

    return decorate
