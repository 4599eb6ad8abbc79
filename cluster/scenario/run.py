"""Runs a scenario: starts a cluster, plays the steps, stops it, judges the run.

run = await run_scenario(load_scenario(Path("kill-master.toml")))
assert run.verdict is Verdict.HOLDS, run.reasons()
"""

import math
import random
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import cattrs
import trio

import rmqlab
from rmqlab.cluster.checks import judge_run
from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.scenario.external import check_commands
from rmqlab.cluster.scenario.history import history_lines
from rmqlab.cluster.scenario.judge import Allowance, Judged, judge_expectation
from rmqlab.cluster.scenario.model import Expectation, Scenario
from rmqlab.cluster.scenario.observation import labels_of, observe
from rmqlab.cluster.scenario.operator import Operator
from rmqlab.cluster.scenario.player import OnProgress, Player, StepFailedError, make_whole
from rmqlab.cluster.scenario.random_faults import RandomFaultError, seed_faults
from rmqlab.cluster.scenario.resources import Resources, cpu_seconds_of_nodes, memory_of
from rmqlab.cluster.scenario.review import review
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.supervisor.commandserver import serve_commands
from rmqlab.cluster.supervisor.host import THIS_MACHINE, Host
from rmqlab.cluster.supervisor.ports import has_loopback_network
from rmqlab.cluster.supervisor.topology import brokers_ever
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.journal import JournalEntry, merge_entries
from rmqlab.runtime.journalsurvey import survey_journals
from rmqlab.runtime.worker import in_thread
from rmqlab.verdict.findings import Finding, Findings, unknown
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.runid import recorded_run
from rmqlab.verdict.verdict import Verdict, worst

ALLOWED_SECONDS = 0.1
"""Real seconds that anything may take on an idle machine: a process start, a sync to disk or a read of the journals (each
0.1 s), and a few turns of several processes on two cores. The longest standstill of this machine is added."""
DISTURBING_SECONDS = 0.5
"""Seconds of the cluster's clock: a sixth of the clients' time-out."""
ROUNDED_SECONDS = 0.002
"""Real seconds by which a timer may be early, or a time in whole milliseconds too short."""
_TICK_SECONDS = 0.02
REPLICAS = 3


@attrs.frozen(kw_only=True)
class Options:
    """How to run a scenario, besides what its file says."""

    profile: str = "4.9"
    rate: float | None = None
    """Cluster seconds per real second; None for the scenario's own."""
    seed: int | None = None
    """Random seed; drawn if None."""
    keeps_stores: bool | None = None
    """None keeps the stores unless the verdict is `holds`."""
    source: str = ""
    """Text of the scenario's file."""
    target: str = ""
    """Name of the scenario on a command line; its own name if empty."""
    mode: str | None = None
    """`dledger` plays it on DLedger groups of three; None for the scenario's own mode."""
    promote_after: float | None = None
    """Cluster seconds after which an operator promotes a slave of a master that is away; None for no operator."""
    allows_commands: bool = False
    """Whether steps may run external commands."""


@attrs.frozen(kw_only=True)
class Run:
    """A scenario that was run and judged."""

    scenario: Scenario
    directory: RunDirectory
    seed: int
    profile: str
    command: str
    """Command that replays the run."""
    judged: Sequence[Judged]
    missing: Sequence[str]
    """Why the run is incomplete: a failed step, an interruption."""
    findings: Judgement
    warnings: Sequence[str]
    """Warnings and violations of the default verdict, except for metrics with an expectation."""
    seconds: float
    began_at: int
    """Time of the begin, in milliseconds of the cluster's clock; 0 if the cluster did not start."""
    stood_still: float
    """Longest standstill of the machine, in real seconds."""
    resources: Resources
    is_simulated: bool = False
    """True if it was played on virtual time, which `seconds` counts then."""

    @property
    def verdict(self) -> Verdict:
        verdicts = [judged.verdict for judged in self.judged]
        return worst([*verdicts, *(Verdict.UNKNOWN for _ in self.missing)])

    @property
    def is_disturbed(self) -> bool:
        """True if the machine paused long enough to expire RocketMQ time-outs of 3 s."""
        return self.stood_still * self.scenario.cluster.rate > DISTURBING_SECONDS

    def reasons(self) -> list[str]:
        """Return why the verdict is not `holds`, one line each."""
        lines = [
            f"{judged.verdict}: {judged.expectation.title}: expected {judged.bound}, found {judged.found}"
            for judged in self.judged
            if judged.verdict is not Verdict.HOLDS
        ]
        return lines + [f"unknown: {text}" for text in self.missing]

    def as_json(self) -> dict[str, Any]:
        """Return the document that `run --json` prints and verdict.json contains."""
        return {
            "scenario": self.scenario.name,
            "profile": self.profile,
            "verdict": str(self.verdict),
            "claim": self.scenario.claim,
            "expectations": [judged.as_json() for judged in self.judged],
            "missing": list(self.missing),
            "warnings": list(self.warnings),
            "seed": self.seed,
            "rate": self.scenario.cluster.rate,
            "simulated": self.is_simulated,
            "seconds": round(self.seconds, 2),
            "stood_still_seconds": math.ceil(self.stood_still * 1000) / 1000,
            "is_disturbed": self.is_disturbed,
            "resources": attrs.asdict(self.resources),
            "command": self.command,
            "directory": str(self.directory.path),
        }


Ready = Callable[[Cluster], Awaitable[None]]


@attrs.frozen(eq=False)
class Stay:
    """Keeps the cluster running for other programs after the last step.

    `over` ends it. Their traffic is in the brokers' journals (`rmqlab.broker.traffic`), because they keep none.
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
        """Note time and memory when all nodes are ready."""
        self.start_seconds = (trio.current_time() - began) / real_seconds(1.0)
        self.memory_bytes = memory_of(life.pid for life in cluster.supervisor.processes.lives.values() if life.pid)

    async def watch_forever(self) -> None:
        while True:
            began = trio.current_time()
            await trio.sleep(real_seconds(_TICK_SECONDS))
            late = (trio.current_time() - began) / real_seconds(1.0) - _TICK_SECONDS
            self.worst_seconds = max(self.worst_seconds, late)


async def run_scenario(
    scenario: Scenario,
    options: Options = Options(),
    *,
    directory: RunDirectory | None = None,
    on_line: Callable[[str], object] = lambda _: None,
    on_progress: OnProgress = lambda _: None,
    ready: Ready | None = None,
    stay: Stay | None = None,
    host: Host = THIS_MACHINE,
) -> Run:
    """Run a scenario and judge it.

    BindingError or NotAllowedError, before anything starts, for one that cannot be played; errors of `open_cluster`. If cancelled, it heals, stops its processes, and leaves a run directory
    with the verdict `unknown`. `on_line` gets a line for each step, and `on_progress`, whenever that changes, a
    function of what is waited for; `ready` is called when the cluster is, before the first step.
    """
    review(scenario, is_single=not (host.is_simulated or has_loopback_network()))
    check_commands(scenario, is_allowed=options.allows_commands, is_simulated=host.is_simulated)
    seed = draw_seed() if options.seed is None else options.seed
    played = seed_faults(scenario.under_profile(options.profile), seed)
    rate = 1.0 if host.is_simulated else options.rate or played.cluster.rate
    spec = attrs.evolve(played.cluster, name=scenario.name, rate=rate)
    if options.mode is not None and options.mode != spec.mode:
        spec = attrs.evolve(spec, mode=options.mode, slaves=REPLICAS - 1)
    if stay is not None:
        spec = attrs.evolve(spec, broker_settings={**spec.broker_settings, "journal_traffic": True})
    played = attrs.evolve(played, cluster=spec)
    where = directory or RunDirectory.create(scenario.name)
    record = _Record(played, options, seed, where, host.is_simulated)
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
            if not host.is_simulated:  # a simulated machine never stands still
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


async def _play(
    record: "_Record",
    host: Host,
    on_line: Callable[[str], object],
    on_progress: OnProgress,
    ready: Ready,
    stay: Stay | None,
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
                await make_whole(cluster)
        nursery.cancel_scope.cancel()
    return failures


def _how_far(cluster: Cluster) -> str:
    supervisor = cluster.supervisor
    ready = sum(life.ready is not None for life in [*supervisor.processes.lives.values()])
    return f"starting: {ready} of {len(supervisor.nodes)} nodes are ready"


def draw_seed() -> int:
    """Return a random seed."""
    return random.SystemRandom().randrange(2**32)


@attrs.frozen
class _Record:
    """Writes the files of a run directory."""

    scenario: Scenario
    options: Options
    seed: int
    directory: RunDirectory
    is_simulated: bool

    @property
    def command(self) -> str:
        options = self.options
        words = ["rmqlab", "run", options.target or self.scenario.name, "--seed", str(self.seed)]
        words += ["--simulated"] if self.is_simulated else ["--rate", f"{self.scenario.cluster.rate:g}"]
        words += ["--profile", options.profile] if options.profile != "4.9" else []
        words += ["--mode", options.mode] if options.mode is not None else []
        words += ["--promote-after", f"{options.promote_after:g}"] if options.promote_after is not None else []
        words += ["--allow-commands"] if options.allows_commands else []
        return shlex.join(words)

    def begin(self) -> None:
        if self.options.source:
            self.directory.write_text("scenario.toml", self.options.source)
        self.directory.write_json("scenario", cattrs.unstructure(self.scenario))
        self._write_run()

    def _write_run(self, **more: object) -> None:
        self.directory.write_json(
            "run",
            {
                "scenario": self.scenario.name,
                "profile": self.options.profile,
                "seed": self.seed,
                "rate": self.scenario.cluster.rate,
                "simulated": self.is_simulated,
                "version": rmqlab.__version__,
                "python": sys.version.split()[0],
                "command": self.command,
                **more,
            },
        )

    def judge(self, missing: list[str], stood_still: float, seconds: float, resources: Resources) -> Run:
        """Judge the run and write the results. Blocks while stores are read."""
        journals, surveys = survey_journals(self.directory.cluster.journal_dir)
        entries = merge_entries(*journals)
        labels = labels_of(entries)
        findings = judge_run(entries, self._stores(entries), surveys, recorded_run(self.directory.cluster.path))
        rate = self.scenario.cluster.rate
        allowance = Allowance(late=rate * (ALLOWED_SECONDS + stood_still), rounded=max(rate, 1) * ROUNDED_SECONDS)
        judged = [
            judge_expectation(
                expectation,
                self._find(expectation, entries, labels, findings),
                allowance,
                findings[expectation.same_as] if expectation.same_as else None,
            )
            for expectation in self.scenario.expectations
        ]
        run = Run(
            scenario=self.scenario,
            directory=self.directory,
            seed=self.seed,
            profile=self.options.profile,
            command=self.command,
            judged=judged,
            missing=missing,
            findings=findings,
            warnings=findings.beside(filter(None, (one.metric for one in self.scenario.expectations))),
            seconds=seconds,
            began_at=labels.get("begin", 0),
            stood_still=stood_still,
            resources=resources,
            is_simulated=self.is_simulated,
        )
        self._write_run(
            began_at=labels.get("begin"),
            ended_at=labels.get("end"),
            stood_still_seconds=math.ceil(stood_still * 1000) / 1000,
        )
        self.directory.write_json("verdict", run.as_json())
        self.directory.write_json("checks", findings.as_json())
        self.directory.write_text("history.txt", "".join(f"{line}\n" for line in history_lines(entries)))
        keeps = self.options.keeps_stores
        if keeps is False or (keeps is None and run.verdict is Verdict.HOLDS):
            self.directory.prune_stores()
        return run

    def _stores(self, entries: Sequence[JournalEntry]) -> dict[str, Any]:
        record = self.directory.cluster.read_record()
        if record is None or not entries:
            return {}
        names = brokers_ever(record.placement, {entry.node for entry in entries})
        return {name: self.directory.store(name) for name in names}

    @staticmethod
    def _find(
        expectation: Expectation, entries: Sequence[JournalEntry], labels: dict[str, int], findings: Findings
    ) -> Finding:
        if expectation.metric is not None:
            return findings[expectation.metric]
        if not entries:
            return unknown(expectation.title, "", "no journal was written")
        return observe(expectation, entries, labels)
