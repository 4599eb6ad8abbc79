"""Plays a scenario on a simulated machine, in a forked process."""

import importlib
from collections.abc import Callable

import attrs

from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.scenario.result import Options, Run
from rmqlab.cluster.scenario.run import draw_seed, run_scenario
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.host import simulate
from rmqlab.cluster.supervisor.fork.forklaunch import PRELOADED
from rmqlab.cluster.supervisor.host import Host
from rmqlab.simulation.child import run_in_child


def play_simulated(
    scenario: Scenario,
    options: Options,
    *,
    directory: RunDirectory | None = None,
    on_line: Callable[[str], object] = lambda _: None,
) -> Run:
    """Run a scenario on virtual time and judge it.

    The seed decides all events: the same seed leads to the same journals, byte for byte. Raises as `run_scenario`.
    Call it outside of a trio run.
    """
    preload()
    seed = draw_seed() if options.seed is None else options.seed
    chosen = attrs.evolve(options, seed=seed)

    async def play(host: Host) -> Run:
        return await run_scenario(scenario, chosen, directory=directory, on_line=on_line, host=host)

    return run_in_child(lambda: simulate(str(seed), play))


def preload() -> None:
    """Import the modules of nodes once, instead of in each forked process."""
    for module in PRELOADED:
        importlib.import_module(module)
