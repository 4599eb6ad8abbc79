"""The nodes, workloads and groups that a scenario may name, and where. Pure."""

from collections.abc import Collection, Iterable, Sequence

import attrs

from rmqlab.cluster.actions.action import Targets
from rmqlab.cluster.scenario.binding import near
from rmqlab.cluster.scenario.model import Scenario, Workload
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind
from rmqlab.cluster.workload.consume import ConsumeConfig
from rmqlab.cluster.workload.produce import ProduceConfig
from rmqlab.runtime.text.digits import number_of
from rmqlab.verdict.metrics import QUEUE_MARK


class WrongTargetError(ValueError):
    """A name is unknown, or of a kind that does not fit here.

    The text lists the names that do.
    """


@attrs.frozen
class ScenarioTargets:
    """The names that a scenario may use."""

    scenario: Scenario
    nodes: Sequence[Node]
    slaves: Collection[str] = ()
    """Names of the nodes that metrics of slaves are about."""

    def workloads(self, kind: str | None = None) -> list[str]:
        return [workload.name for workload in self.scenario.workloads if kind in (None, workload.kind)]

    def groups(self) -> set[str]:
        """Return the groups of all consumers."""
        default = ConsumeConfig().group
        return {
            str(workload.config.get("group", default))
            for workload in self.scenario.workloads
            if workload.kind == "consume"
        }

    def check_target(self, verb: str, accepted: Targets, target: str) -> None:
        """Reject a target that exists but is of a kind that the verb does not accept."""
        if accepted is not Targets.PROCESSES and target in self.workloads():
            raise WrongTargetError(f"{target} is a workload: {verb} needs a node of the cluster")
        if accepted is Targets.BROKERS:
            for node in find_targets(target, self.nodes):
                _expect(node.kind is NodeKind.BROKER, f"{node.name} is a {node.kind}: {verb} needs a broker")

    def check_wait(self, text: str) -> None:
        """Reject a condition about a workload, node or group that cannot make it true."""
        name, *words = text.split() or [""]
        verb = name.partition(".")[0]
        if verb in ("sent", "delivered") and words:
            kind = "produce" if verb == "sent" else "consume"
            known = self.workloads(kind)
            _expect(words[0] in known, f"{verb}: no workload {words[0]!r} of kind {kind}{near(words[0], known)}")
        if verb == "event" and len(words) == 2:
            self.check_source(words[1])
        if verb == "consumed-all" and words:
            groups = self.groups()
            _expect(words[0] in groups, f"consumed-all: unknown consumer group {words[0]!r}{near(words[0], groups)}")

    def check_source(self, name: str) -> None:
        """Reject a name that no process with a journal has."""
        known = [*self._names(), *self.workloads(), ""]
        _expect(name in known, f"unknown name {name!r}{near(name, filter(None, known))}")

    def check_metric_target(self, kind: str, target: str) -> None:
        """Reject an unknown target of a metric, of a kind such as SLAVE.

        Numbers of queues, and topics of other programs, are known only after the run.
        """
        if kind == "QUEUE":
            self._check_queue(target)
            return
        brokers = [node for node in self.nodes if node.kind is NodeKind.BROKER]
        known: dict[str, Iterable[str]] = {
            "NODE": (node.name for node in brokers),
            "SLAVE": self.slaves,
            "BROKER": (node.group or "" for node in brokers),
            "NAMESERVER": (node.name for node in self.nodes if node.kind is NodeKind.NAMESERVER),
            "WATCHER": [*self._names(NodeKind.NAMESERVER), *self.workloads()],
            "GROUP": self.groups(),
        }
        if kind in known:
            names = set(known[kind])
            _expect(target in names, f"no {kind.lower()} {target!r} here{near(target, names)}")

    def _check_queue(self, target: str) -> None:
        topic, _, queue = target.partition(QUEUE_MARK)
        broker, _, number = queue.partition(":")
        is_queue = bool(topic and broker) and number_of(number) is not None
        _expect(is_queue, f"no queue {target!r}: expected TOPIC@BROKER:QUEUE, such as orders@broker-a:0")
        brokers = {node.group for node in self.nodes if node.group}
        _expect(broker in brokers, f"no broker {broker!r} here{near(broker, brokers)}")

    def _names(self, kind: NodeKind | None = None) -> list[str]:
        return [node.name for node in self.nodes if kind in (None, node.kind)]


def topic_of(workload: Workload) -> str:
    """Return the topic that a workload sends to or consumes."""
    default = ProduceConfig().topic if workload.kind == "produce" else ConsumeConfig().topic
    return str(workload.config.get("topic", default))


def _expect(is_so: bool, text: str) -> None:  # noqa: FBT001 -- what is expected reads as a sentence
    if not is_so:
        raise WrongTargetError(text)
