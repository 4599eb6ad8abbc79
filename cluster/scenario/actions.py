"""Actions of scenario steps: those of `actions.table`, and some only of scenarios.

kill, stop, ... = TARGET or [TARGETS]             nodes, or workloads by their names
fault = {type = ...}                              see docs/faults.md
random-faults = {count = N, every = "30 s", ...}  N random faults beside the steps (`rmqlab.cluster.faults.schedule`)
heal = LABEL or "all"                             the fault of the step with this label
produce, consume = WORKLOAD                       start a workload with `start = "step"`
stop-workload = WORKLOAD or [WORKLOADS]           and wait for its end
mark = LABEL                                      label this moment, in all logs, too
probe = TARGET                                    send a message directly to a broker, and record its reply
transfer-leadership = TARGET                      ask a DLedger leader to hand over, and record its reply
resend = TARGET                                   send messages again that a slave cut off (`rmqlab diverged --resend`)
add = "group", "slave GROUP" or "nameserver"      add nodes to the cluster, and wait until they are ready
remove = TARGET or [TARGETS]                      stop nodes and remove them; `broker-b:*` is a group
change-settings = {target = TARGET, KEY = VALUE}  settings of brokers from their next start on
run = ["COMMAND", "ARGUMENT", ...]                run a command, with `--allow-commands` only
measure = "TARGET PATH"                           record one live fact of a node, such as `broker-a commit_log.max`
create-topic, update-group, ...                   operators' commands: see `rmqlab.cluster.scenario.operations`
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import trio

from rmqlab.cluster.actions.action import HEAL, NodeAction, Targets
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.diverged.listing import list_diverged
from rmqlab.cluster.diverged.resend import resend
from rmqlab.cluster.faults.active_faults import ActiveFault
from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.lab import Cluster, Workload
from rmqlab.cluster.scenario import model
from rmqlab.cluster.scenario.external import VERB, CommandLine, read_command, run_command
from rmqlab.cluster.scenario.operations import ACTIONS as OPERATOR_ACTIONS
from rmqlab.cluster.scenario.operations import Operation, OperatorAction, operate
from rmqlab.cluster.scenario.probe import send_directly
from rmqlab.cluster.scenario.quantity import parse_seconds
from rmqlab.cluster.scenario.random_faults import RandomFaultsRun
from rmqlab.cluster.supervisor import scaling
from rmqlab.cluster.supervisor.leadership import transfer_leadership
from rmqlab.cluster.supervisor.marks import mark_text
from rmqlab.cluster.supervisor.plan.membership import KINDS
from rmqlab.cluster.supervisor.plan.targets import join_targets, target_words
from rmqlab.faults import Fault, FaultError, fault_of
from rmqlab.runtime.config.validators import as_written
from rmqlab.runtime.net.worker import in_thread
from rmqlab.runtime.text.digits import number_of
from rmqlab.runtime.text.nearmiss import near_miss

MODULES = {"produce": "rmqlab.cluster.workload.produce", "consume": "rmqlab.cluster.workload.consume"}
MEASURE_SECONDS = 10.0
"""Real seconds that a node may take to send its facts. A single request; without a reply the verdict is unknown."""


@attrs.define(eq=False)
class StepContext:
    """A running cluster, and the workloads and faults that actions started."""

    cluster: Cluster
    scenario: model.Scenario
    tasks: trio.Nursery
    """Tasks that run beside the steps."""
    on_line: Callable[[str], object]
    """Called with a line for each random fault."""
    within: float = model.WAIT_SECONDS
    """Limit of the current step."""
    workloads: dict[str, Workload] = attrs.field(factory=dict)
    faults: dict[str, list[ActiveFault]] = attrs.field(factory=dict)
    """Faults in force, by the label of their step."""
    random_faults: dict[str, list[RandomFaultsRun]] = attrs.field(factory=dict)
    """Random faults, by the label of their step."""

    async def start_workload(self, name: str) -> None:
        """Start one of the scenario's workloads."""
        plan = next(plan for plan in self.scenario.workloads if plan.name == name)
        config = dict(plan.config)
        if plan.nameservers:
            nodes = self.cluster.supervisor.nodes
            config["namesrv_addr"] = ";".join(nodes[nameserver].address for nameserver in plan.nameservers)
        self.workloads[name] = await self.cluster.run_workload(MODULES[plan.kind], config, name=name)


Run = Callable[[StepContext, Any, str], Awaitable[None]]


@attrs.frozen
class Verb:
    """Parses the argument of a step's action, and runs the action.

    Parsing raises ValueError or TypeError. The action gets the context, the argument and the step's label.
    """

    read: Callable[[Any], Any]
    run: Run
    takes: str
    """How the review checks the argument: `targets`, `workloads`, `fault`, `random-faults`, `label`, `measure`,
    `addition`, `settings` or `operation`."""
    targets: Targets = Targets.PROCESSES
    """The processes that it accepts, if it takes targets."""
    leaves_fault: bool = False
    """True if `heal` with the label of the step ends its fault."""


def read_argument(verb: str, value: Any) -> Any:
    """Return the parsed argument of a verb.

    ValueError or TypeError for an invalid one.
    """
    return VERBS[verb].read(value)


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise TypeError(f"expected a name, or an array of names, got {as_written(value)}")
    return tuple(word for name in names for word in target_words(name))


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"expected a name, got {as_written(value)}")
    return value


def _mark_text(value: Any) -> str:
    return mark_text(_name(value))


def _fault(value: Any) -> Fault:
    if not isinstance(value, Mapping):
        raise TypeError(f'expected a table such as {{type = "link", ...}}, got {as_written(value)}')
    return fault_of(value)


_RANDOM_KEYS = ("count", "every", "heal_after", "of", "on")


def _random_faults(value: Any) -> RandomFaults:
    """Return random faults.

    They have no key for a seed: it follows from the seed of the run (`seed_faults`).
    """
    if not isinstance(value, Mapping):
        raise TypeError(f'expected a table such as {{count = 4, every = "30 s"}}, got {as_written(value)}')
    for key in value:
        if key not in _RANDOM_KEYS:
            raise FaultError(f"no key {key!r}; expected one of {', '.join(_RANDOM_KEYS)}{near_miss(key, _RANDOM_KEYS)}")
    if "count" not in value:
        raise FaultError("count is missing: expected how many faults, 1 or more")
    count, on, of = value["count"], value.get("on", RandomFaults().on), value.get("of", RandomFaults().of)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise FaultError(f"count = {as_written(count)}: expected how many faults, 1 or more")
    if not isinstance(on, str):
        raise TypeError(f"on = {as_written(on)}: expected masters, slaves, brokers, nameservers or a target")
    if not isinstance(of, list | tuple) or not all(isinstance(action, str) for action in of):
        raise TypeError(f'of = {as_written(of)}: expected an array of actions, such as ["kill", "pause"]')
    every, heal_after = (
        _seconds_of(value, key, default)
        for key, default in (("every", RandomFaults().every), ("heal_after", RandomFaults().heal_after))
    )
    return RandomFaults(count=count, on=on, of=tuple(of), every=every, heal_after=heal_after)


def _seconds_of(table: Mapping[str, Any], key: str, default: float) -> float:
    if key not in table:
        return default
    try:
        return parse_seconds(table[key])
    except ValueError as exc:
        raise ValueError(f"{key} = {exc}") from None


def _measure(value: Any) -> tuple[str, str]:
    words = value.split() if isinstance(value, str) else []
    if len(words) != 2:
        raise ValueError(f'{as_written(value)}: expected a target and a fact, such as "broker-a commit_log.max"')
    return words[0], words[1]


def _addition(value: Any) -> tuple[str, str]:
    kind, *names = (value.split() if isinstance(value, str) else []) or [""]
    if kind not in KINDS or len(names) > 1 or (kind == "slave" and not names):
        similar = "" if kind in KINDS else near_miss(kind, KINDS)
        raise ValueError(f'{as_written(value)}: expected "group", "slave broker-a" or "nameserver"{similar}')
    return kind, " ".join(names)


@attrs.frozen
class SettingsChange:
    """The argument of `change-settings`."""

    target: str
    settings: Mapping[str, Any]


def _settings_change(value: Any) -> SettingsChange:
    if not isinstance(value, Mapping) or not isinstance(value.get("target"), str) or len(value) < 2:
        raise TypeError(
            f'expected a table such as {{target = "broker-a-s", slave_read_enable = true}}, got {as_written(value)}'
        )
    return SettingsChange(value["target"], {key: item for key, item in value.items() if key != "target"})


def names_of(argument: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (argument,) if isinstance(argument, str) else argument


def _verb_of(action: NodeAction[Any]) -> Verb:
    async def run(context: StepContext, targets: str | tuple[str, ...], label: str) -> None:
        # The targets of one isolation reach each other. Other actions are done one after the other.
        for target in [join_targets(names_of(targets))] if leaves_fault else names_of(targets):
            result = await context.cluster.act(action, target)
            if isinstance(result, ActiveFault):
                context.faults.setdefault(label, []).append(result)

    leaves_fault = action.undo == HEAL
    return Verb(_names, run, "targets", action.targets, leaves_fault=leaves_fault)


def _verb_of_operator(name: str, action: OperatorAction) -> Verb:
    async def run(context: StepContext, operation: Operation, _label: str) -> None:
        await operate(context.cluster.supervisor, name, operation)

    return Verb(action.read, run, "operation")


async def _apply(context: StepContext, fault: Fault, label: str) -> None:
    context.faults.setdefault(label, []).append(await context.cluster.fault(fault))


async def _start_random_faults(context: StepContext, faults: RandomFaults, label: str) -> None:
    run = RandomFaultsRun(context.cluster, faults, label, context.on_line)
    context.random_faults.setdefault(label, []).append(run)
    context.tasks.start_soon(run.play)


async def _heal(context: StepContext, label: str, _label: str) -> None:
    for run in [run for name, many in context.random_faults.items() if label in (name, "all") for run in many]:
        await run.end()
    if label == "all":
        await context.cluster.heal_all()
        context.faults.clear()
        return
    for fault in context.faults.pop(label, []):
        if fault in context.cluster.faults:  # else it has ended by itself, such as a request fault with `times`
            await context.cluster.heal(fault)


async def _add(context: StepContext, added: tuple[str, str], _label: str) -> None:
    await scaling.add(context.cluster.supervisor, *added)


async def _remove(context: StepContext, targets: tuple[str, ...], _label: str) -> None:
    for target in targets:
        await context.cluster.remove(target)


async def _change_settings(context: StepContext, change: SettingsChange, _label: str) -> None:
    await context.cluster.change_settings(change.target, change.settings)


async def _start_workload(context: StepContext, name: str, _label: str) -> None:
    await context.start_workload(name)


async def _stop_workloads(context: StepContext, names: str | tuple[str, ...], _label: str) -> None:
    for name in names_of(names):
        await context.workloads[name].stop()


async def _mark(context: StepContext, argument: str, _label: str) -> None:
    await context.cluster.mark(argument)


async def _probe(context: StepContext, targets: str | tuple[str, ...], _label: str) -> None:
    for target in names_of(targets):
        for node in context.cluster.supervisor.find(target):
            code, remark = await send_directly(node.address)
            context.cluster.supervisor.record(node.name, "probed", code=code, remark=remark)


async def _transfer_leadership(context: StepContext, targets: str | tuple[str, ...], _label: str) -> None:
    """Ask for a transfer that may fail; `promote` is the action for one that must not."""
    supervisor = context.cluster.supervisor
    names = [node.name for target in names_of(targets) for node in supervisor.find(target)]
    await transfer_leadership(supervisor.processes, *names)


async def _resend(context: StepContext, targets: str | tuple[str, ...], _label: str) -> None:
    supervisor = context.cluster.supervisor
    for target in names_of(targets):
        for node in supervisor.find(target):
            nodes = [*supervisor.nodes.values()]
            listing = await in_thread(list_diverged, supervisor.directory, node, nodes)
            for one in await resend(supervisor.namesrv_addr, listing.messages):
                supervisor.record(node.name, "resent", **one.as_json())


async def _run_command(context: StepContext, command: CommandLine, label: str) -> None:
    await run_command(context.cluster, command, label, context.within)


async def _take_measure(context: StepContext, argument: tuple[str, str], label: str) -> None:
    target, path = argument
    for node in context.cluster.supervisor.find(target):
        facts: Any = await context.cluster.snapshot(node.name, MEASURE_SECONDS)
        for key in path.split("."):
            if isinstance(facts, list):
                index = number_of(key)
                facts = facts[index] if index is not None and index < len(facts) else None
            else:
                facts = _member(facts, key) if isinstance(facts, Mapping) else None
        context.cluster.supervisor.record(node.name, "measured", what=path, value=facts, label=label)


def _member(facts: Mapping[Any, Any], key: str) -> Any:
    """Return a member of a node's facts.

    The keys of some maps, such as queue ids, are numbers.
    """
    return facts.get(key, facts.get(int(key)) if key.isdecimal() else None)


VERBS: Mapping[str, Verb] = {
    **{name: _verb_of(action) for name, action in ACTIONS.items()},
    "fault": Verb(_fault, _apply, "fault", leaves_fault=True),
    "random-faults": Verb(_random_faults, _start_random_faults, "random-faults", leaves_fault=True),
    "heal": Verb(_name, _heal, "label"),
    "produce": Verb(_name, _start_workload, "workload"),
    "consume": Verb(_name, _start_workload, "workload"),
    "stop-workload": Verb(_names, _stop_workloads, "workloads"),
    "mark": Verb(_mark_text, _mark, ""),
    "probe": Verb(_names, _probe, "targets", Targets.BROKERS),
    "transfer-leadership": Verb(_names, _transfer_leadership, "targets", Targets.BROKERS),
    "resend": Verb(_names, _resend, "targets", Targets.BROKERS),
    "add": Verb(_addition, _add, "addition"),
    "remove": Verb(_names, _remove, "targets", Targets.NODES),
    "change-settings": Verb(_settings_change, _change_settings, "settings", Targets.BROKERS),
    VERB: Verb(read_command, _run_command, ""),
    "measure": Verb(_measure, _take_measure, "measure", Targets.NODES),
    **{name: _verb_of_operator(name, action) for name, action in OPERATOR_ACTIONS.items()},
}
