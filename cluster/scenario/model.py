"""Classes of a scenario.

`rmqlab.cluster.scenario.load` makes the values from TOML; a program can make them itself.

    Scenario(
        name="kill-master",
        claim="nothing that SYNC_MASTER acknowledged is lost",
        why="The slave has every byte before the producer receives SEND_OK.",
        cluster=ClusterSpec(name="x", role="SYNC_MASTER", rate=10),
        workloads=(Workload(name="orders", kind="produce", config={"topic": "orders"}),),
        steps=(Step(wait="sent.SEND_OK orders 20", action=Action("kill", "broker-a:master"), label="death"),),
        expectations=(Expectation(metric="lost.SEND_OK", equals=Quantity(0, "messages")),),
    )

All times are seconds of the cluster's clock.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from rmqlab.cluster.scenario.quantity import Quantity
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.runtime.config.validators import one_of

WAIT_SECONDS = 120.0
WORKLOAD_KINDS = ("produce", "consume")
COUNT = "count"
TAKES = (COUNT, "first", "last", "min", "max", "distinct", "delay")


@attrs.frozen(kw_only=True)
class Workload:
    """A client process."""

    name: str
    kind: str = attrs.field(validator=one_of(WORKLOAD_KINDS))
    config: Mapping[str, Any] = attrs.field(factory=dict)
    """Keys of its settings (`rmqlab.cluster.workload`)."""
    nameservers: tuple[str, ...] = ()
    """The nameservers that it uses; all if empty."""
    is_early: bool = True
    """Started before the first step; else a step starts it."""


@attrs.frozen
class Action:
    """A verb of `rmqlab.cluster.scenario.actions` and its argument."""

    verb: str
    argument: Any


@attrs.frozen(kw_only=True)
class Step:
    """Wait for a time and for a condition, then act. Each part is optional."""

    at: float | None = None
    """Earliest time of the step, in seconds after the start."""
    after: float = 0.0
    """Minimum seconds after the previous step."""
    wait: str | None = None
    """A condition of `rmqlab.cluster.scenario.waits`."""
    within: float = WAIT_SECONDS
    """Limit of the wait in seconds. After it the scenario ends, and is judged by what was recorded."""
    action: Action | None = None
    label: str = ""
    """A name for the moment at which the action begins, for expectations to refer to."""


@attrs.frozen(kw_only=True)
class Expectation:
    """A bound on a metric of the checks (`metric`), or on journal events (`event`).

    Events are those of the kind with the fields of `where` (`node` is the node that recorded it), between two labels.
    `take` says what counts: their number, the first, last, least or greatest value of `field` or how many different
    ones there are, or the delay in seconds from the label `after` to the first of them.
    """

    name: str = ""
    metric: str | None = None
    event: str | None = None
    where: Mapping[str, Any] = attrs.field(factory=dict)
    after: str | None = None
    before: str | None = None
    take: str = attrs.field(default=COUNT, validator=one_of(TAKES))
    field: str | None = None
    at_least: Quantity | None = None
    at_most: Quantity | None = None
    equals: Quantity | str | None = None
    same_as: str | None = None
    """A metric that has the same value."""
    source: str = ""

    @property
    def title(self) -> str:
        return self.name or self.metric or f"{self.take} of {self.event}"


@attrs.frozen(kw_only=True)
class Variant:
    """How a profile of the brokers changes the expectations."""

    claim: str = ""
    expectations: tuple[Expectation, ...] = ()
    """Each replaces the one with its title, or is added."""
    dropped: tuple[str, ...] = ()
    """Titles of those that do not hold here."""
    same: str = ""
    """Why the profile changes no expectation. The other fields are then empty."""


@attrs.frozen(kw_only=True)
class Scenario:
    """One scenario."""

    name: str
    claim: str
    why: str = ""
    sources: tuple[str, ...] = ()
    """`rmq#N` is apache/rocketmq issue N, `ali#N` one of the older tracker."""
    cluster: ClusterSpec
    workloads: tuple[Workload, ...] = ()
    steps: tuple[Step, ...] = ()
    end: float | None = None
    """Seconds after the beginning when it ends; None: it ends with its last step."""
    expectations: tuple[Expectation, ...] = ()
    hardened: Variant | None = None
    """Expectations with `profile = "hardened"`, or why they are the same."""

    @property
    def own_profile(self) -> str:
        """The profile of its file, which options of a run override."""
        return str(self.cluster.broker_settings.get("profile", self.cluster.profile))

    @property
    def differs_hardened(self) -> bool:
        """True if `profile = "hardened"` changes the expectations."""
        return self.hardened is not None and not self.hardened.same

    def under_profile(self, profile: str) -> "Scenario":
        """Return this scenario with a profile for its brokers, and that profile's bounds."""
        settings = {**self.cluster.broker_settings, "profile": profile}
        changed = attrs.evolve(self, cluster=attrs.evolve(self.cluster, broker_settings=settings))
        if self.hardened is None or profile != "hardened":
            return changed
        replaced = {expectation.title: expectation for expectation in self.hardened.expectations}
        kept = [
            replaced.pop(expectation.title, expectation)
            for expectation in self.expectations
            if expectation.title not in self.hardened.dropped
        ]
        return attrs.evolve(changed, claim=self.hardened.claim or self.claim, expectations=(*kept, *replaced.values()))
