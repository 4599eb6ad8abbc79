"""The table of actions.

A new action is one entry; CONTRIBUTING.md ("Add an action") says what follows from it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rmqlab.cluster.actions.action import HEAL, Liveness, NodeAction, Targets
from rmqlab.cluster.actions.reports import POWER_LOSS_REPORT, WIPE_REPORT, FaultReport, RoleReport, StartReport

if TYPE_CHECKING:  # the command line reads the table, and does not run the actions
    from rmqlab.cluster.faults.active_faults import ActiveFault
    from rmqlab.cluster.supervisor.supervisor import Supervisor
    from rmqlab.store.offline.powerloss import Lost

R_co = TypeVar("R_co", covariant=True)


class _OnNames(Protocol[R_co]):
    def __call__(self, supervisor: "Supervisor", /, *names: str) -> Awaitable[R_co]: ...


def _on_names(method: _OnNames[R_co]) -> "Callable[[Supervisor, str], Awaitable[R_co]]":
    """Call a method of the supervisor with the names of the target's processes.

    UnknownTargetError without any.
    """

    def run(supervisor: "Supervisor", target: str) -> Awaitable[R_co]:
        return method(supervisor, *(node.name for node in supervisor.find(target)))

    return run


async def _isolate(supervisor: "Supervisor", target: str) -> "ActiveFault":
    from rmqlab.faults import Isolation  # noqa: PLC0415 -- as above

    return await supervisor.faults.apply(Isolation(target=target))


async def _promote(supervisor: "Supervisor", *names: str) -> tuple[str, ...]:
    from rmqlab.cluster.supervisor import rolechanges  # noqa: PLC0415 -- as above

    return await rolechanges.promote(supervisor, *names)


async def _demote(supervisor: "Supervisor", *names: str) -> tuple[str, ...]:
    from rmqlab.cluster.supervisor import rolechanges  # noqa: PLC0415 -- as above

    return await rolechanges.demote(supervisor, *names)


class NodeActions:
    """Base of the classes that offer every action as a method.

    Targets are `broker-a`, `broker-a:master`, `broker-a:slave`, `broker-a:*`, `broker-a-s`, `namesrv-1`, or a
    workload's name. An action accepts several, and a text can name several with commas. Errors: UnknownTargetError,
    WrongStateError, NodeFailedError, FaultError.
    """

    kill: NodeAction[None] = NodeAction(
        run=_on_names(lambda supervisor, *names: supervisor.kill(*names)),
        help="Kill with SIGKILL: nothing is flushed or unregistered, the sockets close.",
        doing="killing",
        needs=(Liveness.RUNNING, Liveness.PAUSED),
        leaves=Liveness.ENDED,
        ended_as="killed",
        undo="start",
        key="k",
    )
    start: NodeAction[None] = NodeAction(
        run=_on_names(lambda supervisor, *names: supervisor.start(*names)),
        help="Start nodes that do not run, and return when they are ready.",
        doing="starting",
        needs=(Liveness.ENDED,),
        leaves=Liveness.RUNNING,
        takes_settings=True,
        key="s",
        report=StartReport(),
    )
    stop: NodeAction[None] = NodeAction(
        run=_on_names(lambda supervisor, *names: supervisor.stop(*names)),
        help="Stop in order: a broker unregisters first.",
        doing="stopping",
        needs=(Liveness.RUNNING,),
        leaves=Liveness.ENDED,
        ended_as="stopped",
        undo="start",
        key="x",
    )
    pause: NodeAction[None] = NodeAction(
        run=_on_names(lambda supervisor, *names: supervisor.pause(*names)),
        help="Freeze with SIGSTOP: the sockets stay open, nothing answers.",
        doing="pausing",
        needs=(Liveness.RUNNING,),
        leaves=Liveness.PAUSED,
        undo="resume",
        key="p",
    )
    resume: NodeAction[None] = NodeAction(
        run=_on_names(lambda supervisor, *names: supervisor.resume(*names)),
        help="Continue a paused node with SIGCONT.",
        doing="resuming",
        needs=(Liveness.PAUSED,),
        leaves=Liveness.RUNNING,
        key="p",
        report=StartReport(),
    )
    restart: NodeAction[None] = NodeAction(
        run=_on_names(lambda supervisor, *names: supervisor.restart(*names)),
        help="Stop nodes that run, start all of them, and return when they are ready.",
        doing="restarting",
        needs=(Liveness.RUNNING, Liveness.ENDED),
        leaves=Liveness.RUNNING,
        takes_settings=True,
        report=StartReport(),
    )
    promote: NodeAction[tuple[str, ...]] = NodeAction(
        run=_on_names(_promote),
        help="""Make a slave a master: stop it, set broker id 0, start it on its store.

        RocketMQ's remedy before 4.5. An old master that still runs, or is started later, is then a second master.
        In a DLedger group nothing stops: the leader hands over to the member.
        """,
        doing="promoting",
        needs=(Liveness.RUNNING, Liveness.ENDED),
        leaves=Liveness.RUNNING,
        targets=Targets.BROKERS,
        sets_role="master",
        key="m",
        key_label="role",
        report=RoleReport(),
    )
    demote: NodeAction[tuple[str, ...]] = NodeAction(
        run=_on_names(_demote),
        help="""Make a master a slave: stop it, set a free broker id, start it on its store.

        What its log has beyond the new master's, see `rmqlab diff` and the switch ha_truncate_diverged.
        """,
        doing="demoting",
        needs=(Liveness.RUNNING, Liveness.ENDED),
        leaves=Liveness.RUNNING,
        targets=Targets.BROKERS,
        sets_role="slave",
        key="m",
        report=RoleReport(),
    )
    power_loss: NodeAction["Mapping[str, Lost]"] = NodeAction(
        run=_on_names(lambda supervisor, *names: supervisor.power_loss(*names)),
        help="""Kill, then erase what was not yet synced to disk; `start` recovers the rest.

        Sockets close as at a kill: isolate the node first if its peers must not notice.
        """,
        doing="cutting the power of",
        leaves=Liveness.ENDED,
        ended_as="without power",
        targets=Targets.NODES,
        undo="start",
        report=POWER_LOSS_REPORT,
    )
    wipe: NodeAction[Mapping[str, int]] = NodeAction(
        run=_on_names(lambda supervisor, *names: supervisor.wipe(*names)),
        help="Kill, then delete the store: the next `start` finds an empty disk. Does not ask.",
        doing="wiping",
        leaves=Liveness.ENDED,
        ended_as="wiped",
        targets=Targets.BROKERS,
        report=WIPE_REPORT,
    )
    isolate: NodeAction["ActiveFault"] = NodeAction(
        run=_isolate,
        help="Cut a node off: packets from and to it vanish. No peer sees a close, connects hang.",
        doing="isolating",
        targets=Targets.NODES,
        undo=HEAL,
        key="i",
        report=FaultReport(),
    )


ACTIONS: Mapping[str, NodeAction[Any]] = {
    action.name: action for action in vars(NodeActions).values() if isinstance(action, NodeAction)
}
"""All actions by the name of their command."""
