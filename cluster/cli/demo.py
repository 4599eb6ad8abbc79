"""The demo: a cluster, its master killed under load, and the verdict."""

import shutil
import signal
from collections.abc import AsyncIterator

import attrs
import click
import trio
from rich.text import Text

from rmqlab.cluster.cli.number import NumberRange
from rmqlab.cluster.cli.output.screen import HangingLine, console
from rmqlab.cluster.cli.terms import no_result
from rmqlab.cluster.demo.console import Terminal
from rmqlab.cluster.demo.story import SPEC, Ending, Story
from rmqlab.cluster.lab import WaitTimeoutError, open_cluster
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.cluster.supervisor.serve import UP_FAILURES


@click.command()
@click.option("--rate", type=NumberRange(min=1, max=20), default=SPEC.rate, help="Cluster seconds per real second.")
def demo(rate: float) -> None:
    """Start a cluster, load it, kill its master, and show the events and the losses.

    Exit status 0: no acknowledged message was lost. 1: at least one was lost. 2: no result.
    """
    directory = ClusterDirectory.named(SPEC.name)
    stage = Terminal(console)
    console.print(
        HangingLine(
            Text("rmqlab demo", "bold").append(
                f": a RocketMQ master is killed under load. Time runs {rate:g} times as fast as real time,"
                " and all times below are the cluster's.",
                "not bold",
            )
        )
    )
    try:
        ending = trio.run(_play, attrs.evolve(SPEC, rate=rate), directory, stage)
    except BaseExceptionGroup as group:
        known = group.subgroup((*UP_FAILURES, WaitTimeoutError, TimeoutError))
        if known is None:
            raise
        no_result(str(_first(known)))
    if ending is None:
        no_result("interrupted; everything is stopped")
    stage.ending(ending, str(directory.path))
    raise click.exceptions.Exit(0 if ending.holds else 1)


async def _play(spec: ClusterSpec, directory: ClusterDirectory, stage: Terminal) -> Ending | None:
    scope = trio.CancelScope()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_on_signal, signals, scope)
            ending = None
            with scope:
                _forget_last(directory)
                RunDirectory(directory.path).write_json("run", {"command": f"rmqlab demo --rate {spec.rate:g}"})
                async with open_cluster(spec, directory=directory.path) as cluster:
                    stage.story = Story(cluster, stage)
                    ending = await stage.story.run()
            nursery.cancel_scope.cancel()
    return ending


def _forget_last(directory: ClusterDirectory) -> None:
    """Delete the stores of the last demo.

    The lock of the directory protects a demo that is running.
    """
    directory.create()
    with directory.locked():
        for path in directory.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)


async def _cancel_on_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    exc: BaseException = group
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc
