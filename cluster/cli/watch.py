"""The live view of a cluster that another process supervises."""

import signal
import sys
from collections.abc import AsyncIterator

import click
import trio

from rmqlab.cluster.cli.live.terminal import LiveView, is_terminal
from rmqlab.cluster.cli.live.watched import RemoteCluster
from rmqlab.cluster.cli.output.event_lines import event_line
from rmqlab.cluster.cli.output.screen import console, live_console
from rmqlab.cluster.cli.output.tables import render_status
from rmqlab.cluster.cli.terms import command, directory_of, fail, name_option
from rmqlab.cluster.supervisor.command import CommandFailedError, SupervisorEndedError, ask_stream
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, NoClusterError
from rmqlab.cluster.supervisor.plan.status import Document
from rmqlab.runtime.exceptiongroups import leaves


@click.command()
@name_option
@click.option("--plain", is_flag=True, help="Events line by line, even in a terminal.")
def watch(name: str, *, plain: bool) -> None:
    """Show the live view of a running cluster until q or Ctrl-C; the cluster runs on.

    Without a terminal, print its status, and then a line for each event.
    """
    directory = directory_of(name)
    document = command(name, "status")
    try:
        if plain or not is_terminal(live_console):
            _follow(directory, document)
        else:
            trio.run(_show, directory, document)
    except* KeyboardInterrupt:
        pass  # Ctrl-C ends the view
    except* (NoClusterError, SupervisorEndedError):
        console.print(f"cluster {document['name']} has ended")
    except* CommandFailedError as group:
        fail(str(next(leaves(group))))


def _follow(directory: ClusterDirectory, document: Document) -> None:
    console.print(render_status(document))
    console.print("\nCtrl-C ends the watching. Events:", style="dim")
    for message in ask_stream(directory, "events", last=0, follow=True, every=False):
        if message.value is not None:
            console.print(event_line(message.value))


async def _show(directory: ClusterDirectory, document: Document) -> None:
    """Show it until the user leaves, or the cluster ends."""
    subject = RemoteCluster(directory)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_leave_on_signal, signals, subject)
            nursery.start_soon(LiveView(subject, live_console, {**document}).run, sys.stdin.fileno())
            await subject.left.wait()
            nursery.cancel_scope.cancel()


async def _leave_on_signal(signals: AsyncIterator[int], subject: RemoteCluster) -> None:
    async for _ in signals:
        await subject.leave()
