"""Runs a scenario: starts a cluster, plays the steps, stops it, judges the run.

run = await run_scenario(load_scenario(Path("kill-master.toml")))
assert run.verdict is Verdict.HOLDS, run.reasons()
"""

import random
from collections.abc import Awaitable, Callable

import attrs
import trio

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.scenario.external import check_commands
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.scenario.operator import Operator
from rmqlab.cluster.scenario.player import OnProgress, Player, StepFailedError, heal_and_resume_all
from rmqlab.cluster.scenario.random_faults import RandomFaultError, seed_faults
from rmqlab.cluster.scenario.record import RunRecord
from rmqlab.cluster.scenario.resources import Resources, cpu_seconds_of_nodes, memory_of
from rmqlab.cluster.scenario.result import Options, Run
from rmqlab.cluster.scenario.review import review
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.supervisor.commandserver import serve_commands
from rmqlab.cluster.supervisor.host import THIS_MACHINE, Host
from rmqlab.cluster.supervisor.ports import has_loopback_network
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.net.worker import in_thread

_TICK_SECONDS = 0.02
_DEFAULTS = Options()
REPLICAS = 3


Ready = Callable[[Cluster], Awaitable[None]]


@attrs.frozen(eq=False)
class KeepRunning:
    """Keeps the cluster running for other programs after the last step.

    `over` ends it. Those programs keep no journals: their traffic is in those of brokers (`rmqlab.broker.traffic`).
    """

    played: trio.Event = attrs.field(factory=trio.Event)
    """Set when the last step is done."""
    over: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class _Machine:
    """Resources of a run, and the longest standstill of the machine."""

    worst_seconds: float = 0.0
    start_seconds: float | None = None
    memory_bytes: int | None = None

    def measure(self, cluster: Cluster, began: float) -> None:
        """Record time and memory when all nodes are ready."""
        self.start_seconds = (trio.current_time() - began) / real_seconds(1.0)
        self.memory_bytes = memory_of(
            process.pid for process in cluster.supervisor.processes.states.values() if process.pid
        )

    async def watch_forever(self) -> None:
        while True:
            began = trio.current_time()
            await trio.sleep(real_seconds(_TICK_SECONDS))
            late = (trio.current_time() - began) / real_seconds(1.0) - _TICK_SECONDS
            self.worst_seconds = max(self.worst_seconds, late)


async def run_scenario(
    scenario: Scenario,
    options: Options = _DEFAULTS,
    *,
    directory: RunDirectory | None = None,
    on_line: Callable[[str], object] = lambda _: None,
    on_progress: OnProgress = lambda _: None,
    ready: Ready | None = None,
    stay: KeepRunning | None = None,
    host: Host = THIS_MACHINE,
) -> Run:
    """Run a scenario and judge it.

    Raises BindingError or NotAllowedError, before any process starts, and errors of `open_cluster`. If
    cancelled, it heals, stops its processes, and leaves a run directory with the verdict `unknown`. `on_line` gets a
    line for each step, and `on_progress`, whenever it changes, a function that returns the current wait. `ready` is
    called when the cluster is ready, before the first step.
    """
    review(scenario, is_single=not (host.is_simulated or has_loopback_network()))
    check_commands(scenario, is_allowed=options.allows_commands, is_simulated=host.is_simulated)
    options = attrs.evolve(options, profile=options.profile or scenario.own_profile)
    seed = draw_seed() if options.seed is None else options.seed
    played = _with_options(scenario, options, seed, is_simulated=host.is_simulated, is_kept=stay is not None)
    where = directory or RunDirectory.create(scenario.name)
    record = RunRecord(played, options, seed, where, host.is_simulated, scenario.own_profile)
    record.begin()
    began, machine, missing = trio.current_time(), _Machine(), ["the run was interrupted"]
    cpu_before = cpu_seconds_of_nodes(is_simulated=host.is_simulated)

    async def started(cluster: Cluster) -> None:
        if not host.is_simulated:
            machine.measure(cluster, began)
        if ready is not None:
            await ready(cluster)

    try:
        async with trio.open_nursery() as nursery:
            if not host.is_simulated:  # a simulated machine never stalls
                nursery.start_soon(machine.watch_forever)
            failures = await _play(record, host, on_line, on_progress, started, stay)
            missing[:] = failures
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:  # unwrap the group of our own nursery
            raise group.exceptions[0] from None
        raise
    finally:
        with trio.CancelScope(shield=True):
            on_progress(lambda: "judging")
            seconds = (trio.current_time() - began) / real_seconds(1.0)
            resources = Resources(
                start_seconds=machine.start_seconds,
                memory_bytes=machine.memory_bytes,
                cpu_seconds=cpu_seconds_of_nodes(is_simulated=host.is_simulated) - cpu_before,
            )
            run = await in_thread(record.judge, missing, machine.worst_seconds, seconds, resources)
    return run


def _with_options(scenario: Scenario, options: Options, seed: int, *, is_simulated: bool, is_kept: bool) -> Scenario:
    """Return the scenario to play: with profile, random faults, clock rate and mode."""
    played = seed_faults(scenario.under_profile(options.profile), seed)
    rate = 1.0 if is_simulated else options.rate or played.cluster.rate
    spec = attrs.evolve(played.cluster, name=scenario.name, rate=rate)
    if options.mode is not None and options.mode != spec.mode:
        spec = attrs.evolve(spec, mode=options.mode, slaves=REPLICAS - 1)
    if is_kept:
        spec = attrs.evolve(spec, broker_settings={**spec.broker_settings, "journal_traffic": True})
    return attrs.evolve(played, cluster=spec)


async def _play(
    record: RunRecord,
    host: Host,
    on_line: Callable[[str], object],
    on_progress: OnProgress,
    ready: Ready,
    stay: KeepRunning | None,
) -> list[str]:
    """Play the scenario on a cluster of its own; return why it did not reach its end."""
    scenario, failures = record.scenario, list[str]()
    opened = open_cluster(
        scenario.cluster,
        directory=record.directory.cluster,
        seed=str(record.seed),
        started=lambda cluster: on_progress(lambda: _how_far(cluster)),
        host=host,
    )
    async with opened as cluster, trio.open_nursery() as nursery:
        if not host.is_simulated:  # no other program reaches a simulated cluster
            await nursery.start(serve_commands, cluster, nursery.cancel_scope.cancel)
        try:
            await ready(cluster)
            if record.options.promote_after is not None:
                operator = Operator(cluster, record.options.promote_after, on_line)
                nursery.start_soon(operator.watch_forever)
            try:
                await Player(cluster, scenario, on_line, on_progress).play()
            except* (StepFailedError, RandomFaultError) as group:
                failures += [str(exc) for exc in group.exceptions]
            if stay is not None:
                stay.played.set()
                await stay.over.wait()
        finally:
            on_progress(lambda: "stopping all nodes")
            with trio.CancelScope(shield=True):
                await heal_and_resume_all(cluster)
        nursery.cancel_scope.cancel()
    return failures


def _how_far(cluster: Cluster) -> str:
    supervisor = cluster.supervisor
    ready = sum(process.ready is not None for process in [*supervisor.processes.states.values()])
    return f"starting: {ready} of {len(supervisor.nodes)} nodes are ready"


def draw_seed() -> int:
    """Return a random seed."""
    return random.SystemRandom().randrange(2**32)
