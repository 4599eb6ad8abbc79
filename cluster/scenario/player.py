"""Plays the steps of a scenario on a running cluster, and records when each began."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import trio

from rmqlab.cluster.conditions import Condition, describe_timeout
from rmqlab.cluster.faults.schedule import RandomFaults, describe_random
from rmqlab.cluster.lab import Cluster, JournalReader, WaitTimeoutError, status_when
from rmqlab.cluster.scenario.actions import VERBS, SettingsChange, StepContext
from rmqlab.cluster.scenario.model import Scenario, Step
from rmqlab.cluster.scenario.review import BEGIN, END, random_labels
from rmqlab.cluster.scenario.waits import parse_wait
from rmqlab.cluster.supervisor.plan.process_state import NodeState
from rmqlab.cluster.supervisor.plan.topology import NodeKind
from rmqlab.faults import Fault, describe_fault, fault_values
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.journals.journalentry import JournalEntry

OnLine = Callable[[str], object]
OnProgress = Callable[[Callable[[], str]], object]

_PATIENCE = 10.0
"""Real seconds added to the limit of a wait on a fast clock, where a minute of the cluster is short for a machine."""


class StepFailedError(Exception):
    """A step failed: the rest of the scenario was not played."""


@attrs.define(eq=False)
class Player:
    """One run of a scenario."""

    cluster: Cluster
    scenario: Scenario
    on_line: OnLine = lambda _: None
    """Called with a line for each step when it begins."""
    on_progress: OnProgress = lambda _: None
    """Called with a function that returns the current wait, whenever it changes. Another thread may call that one."""
    _reader: JournalReader = attrs.field(init=False)
    """Reads the journals when a step waits for them."""
    _seen: list[JournalEntry] = attrs.field(factory=list, init=False)
    _began_at: int = attrs.field(default=0, init=False)
    _acted_at: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = self.cluster.journal_reader()

    @property
    def now(self) -> int:
        """Milliseconds of the cluster's clock."""
        return self.cluster.supervisor.clock.wall_millis()

    async def play(self) -> None:
        """Start the workloads, play every step, and wait for the end.

        StepFailedError if a step fails.
        """
        with contextlib.closing(self._reader):
            await self._play_all()

    async def _play_all(self) -> None:
        async with trio.open_nursery() as nursery:
            context = StepContext(
                self.cluster, self.scenario, nursery, lambda what: self.on_line(self._timed(f"random fault: {what}"))
            )
            try:
                await self._begin(context)
                done_at = self._began_at
                for number, step in enumerate(self.scenario.steps, 1):
                    await self._play(context, number, step, done_at)
                    done_at = self.now
                if self.scenario.end is not None:
                    self.on_progress(lambda: "waiting for the end")
                    await self._sleep_until(self._began_at + self.scenario.end * 1000)
            finally:
                self._record(0, END, "")
                nursery.cancel_scope.cancel()

    async def _begin(self, context: StepContext) -> None:
        self._began_at = self._acted_at = self.now
        self._record(0, BEGIN, "")
        for workload in self.scenario.workloads:
            if workload.is_early:
                await context.start_workload(workload.name)

    async def _play(self, context: StepContext, number: int, step: Step, done_at: int) -> None:
        at = self._began_at if step.at is None else self._began_at + step.at * 1000
        place = f"step {number} of {len(self.scenario.steps)}"
        self.on_progress(lambda: f"{place}: waiting for its time")
        await self._sleep_until(max(at, done_at + step.after * 1000))
        try:
            if step.wait is not None:
                self.on_progress(lambda: f"{place}: waiting for {step.wait}")
                await self._wait(step.wait, step.within)
            if step.action is not None:
                self.on_progress(lambda: f"{place}: {step.action.verb if step.action else ''}")
                self._acted_at = self.now
                self.on_line(self._line(step))
                self._record(number, step.label, f"{step.action.verb} {_plain(step.action.argument)}")
                context.within = step.within
                await VERBS[step.action.verb].run(context, step.action.argument, step.label)
            elif step.label:
                self._record(number, step.label, "")
        except trio.Cancelled:
            raise
        except Exception as exc:  # a boundary: the run is judged by the records so far
            raise StepFailedError(f"step {number}: {exc}") from exc

    def _line(self, step: Step) -> str:
        assert step.action is not None
        note = f"  ({step.label})" if step.label and step.label != step.action.argument else ""
        return self._timed(f"{step.action.verb} {_plain(step.action.argument)}{note}")

    def _timed(self, text: str) -> str:
        return f"{(self.now - self._began_at) / 1000:8.2f} s  {text}"

    def _record(self, number: int, label: str, action: str) -> None:
        self.cluster.supervisor.record("", "step", number=number, label=label, action=action)

    async def _sleep_until(self, millis: float) -> None:
        left = max(millis - self.now, 0.0)
        await trio.sleep(real_seconds(left / 1000 / self.cluster.supervisor.spec.rate))

    async def _wait(self, text: str, within: float) -> None:
        nodes = [node for node in self.cluster.supervisor.nodes.values() if node.kind is not NodeKind.WORKLOAD]
        names = [workload.name for workload in self.scenario.workloads]
        condition = parse_wait(text, nodes, names, random_labels(self.scenario))
        seconds = real_limit(within, self.cluster.supervisor.spec.rate)
        if isinstance(condition, Condition):
            document = await status_when(self.cluster, condition, seconds)
            if not condition.holds(document):
                raise WaitTimeoutError(condition.describe_timeout(document, within))
            return
        recent = self._since_action(self._seen)
        with trio.move_on_after(real_seconds(seconds)):
            new = self._reader.read_new()
            while True:
                self._seen += new
                recent += self._since_action(new)
                if condition.holds(self._seen, recent):
                    return
                while not (new := self._reader.read_new()):
                    await self._reader.wait_changed()
        raise WaitTimeoutError(describe_timeout(text, within, condition.explain(self._seen, recent)))

    def _since_action(self, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        return [entry for entry in entries if entry.at_millis >= self._acted_at]


def real_limit(within: float, rate: float) -> float:
    """Return the limit of a wait in real seconds."""
    return within / rate + (_PATIENCE if rate > 1 else 0.0)


async def heal_and_resume_all(cluster: Cluster) -> None:
    """Heal all faults and resume paused nodes, so that the cluster can stop cleanly."""
    await cluster.heal_all()
    for name, process in list(cluster.supervisor.processes.states.items()):
        if process.state is NodeState.PAUSED:
            await cluster.supervisor.resume(name)


def _plain(argument: Any) -> str:
    if isinstance(argument, tuple):
        return " ".join(map(str, filter(None, argument)))
    if isinstance(argument, SettingsChange):
        return " ".join([argument.target, *(f"{key}={value}" for key, value in argument.settings.items())])
    if isinstance(argument, RandomFaults):
        return describe_random(argument)
    return describe_fault(fault_values(argument)) if isinstance(argument, Fault) else str(argument)
