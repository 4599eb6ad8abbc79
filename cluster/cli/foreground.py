"""`rmqlab up` without --detach: supervises and shows the cluster."""

import contextlib
import sys

from rmqlab.cluster.cli.failures import OutputFailedError
from rmqlab.cluster.cli.live.terminal import LiveView, is_terminal
from rmqlab.cluster.cli.live.watched import LocalCluster
from rmqlab.cluster.cli.output.event_lines import event_line
from rmqlab.cluster.cli.output.progress import Progress
from rmqlab.cluster.cli.output.screen import console, live_console
from rmqlab.cluster.cli.output.tables import render_up
from rmqlab.cluster.cli.terms import print_json
from rmqlab.cluster.cli.up import up_document
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.plan.status import Document
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, node_names
from rmqlab.cluster.supervisor.serve import WhenReady, run_foreground
from rmqlab.runtime.node.logfile import log_to_file


def run_here(
    spec: ClusterSpec, directory: ClusterDirectory, *, plain: bool, as_json: bool, control: str | None
) -> None:
    """Run a cluster until it ends, and show it live, as lines or as JSON."""
    is_live = not plain and not as_json and is_terminal(live_console)
    _supervise(spec, directory, _follow_as_json if as_json else _show_live if is_live else _follow, control)
    if not as_json:
        _print_if_possible("stopped")


def _supervise(spec: ClusterSpec, directory: ClusterDirectory, ready: WhenReady, control: str | None) -> None:
    """Supervise the cluster until it ends; show the progress of its start."""
    progress = Progress()
    count = sum(map(len, node_names(spec)))

    def started(cluster: Cluster) -> None:
        states = cluster.supervisor.processes.states

        def how_far() -> str:
            ready = sum(process.ready is not None for process in [*states.values()])
            return f"starting: {ready} of {count} nodes are ready"

        progress.begin(how_far)

    async def when_ready(cluster: Cluster, document: Document) -> None:
        progress.end()
        await ready(cluster, document)

    try:
        directory.create()
        log_to_file(directory.supervisor_log)
        run_foreground(spec, directory, when_ready, started=started, control=control)
    finally:
        progress.end()


async def _show_live(cluster: Cluster, document: Document) -> None:
    """Print the nodes, which stay on the terminal, and show the live view."""
    console.print(render_up(document))
    try:
        await LiveView(LocalCluster(cluster), live_console, document).run(sys.stdin.fileno())
    finally:
        _print_if_possible("\nstopping all nodes ...")


def _print_if_possible(text: str) -> None:
    """Print a line; do nothing if the terminal was closed."""
    with contextlib.suppress(OutputFailedError):
        console.print(text)


async def _follow(cluster: Cluster, document: Document) -> None:
    console.print(render_up(document))
    console.print("\nCtrl-C stops it. Events:", style="dim")
    async with cluster.events.follow() as events:
        async for event in events:
            console.print(event_line(event.as_json()))


async def _follow_as_json(cluster: Cluster, document: Document) -> None:
    print_json(up_document(document))
    async with cluster.events.follow() as events:
        async for event in events:
            print_json(event.as_json())
