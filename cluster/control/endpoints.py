"""The table of endpoints.

Every action of `rmqlab.cluster.actions.table` has one, and every command of operators (`operatorendpoints`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.control import inputs, outputs
from rmqlab.cluster.control.endpoint import Arguments, Call, Endpoint
from rmqlab.cluster.control.inputs import FaultValues, Fields
from rmqlab.cluster.control.judging import judge
from rmqlab.cluster.control.messages import SendItem, reject
from rmqlab.cluster.control.operatorendpoints import OPERATOR_ENDPOINTS
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.commandhandlers import HANDLERS
from rmqlab.runtime.config.settings import snake

_JUDGES = trio.CapacityLimiter(1)
"""Judgements at the same time: each reads all journals and stores."""


def _of_action(action: NodeAction[Any]) -> Endpoint:
    return Endpoint(
        name=action.method,
        method="POST",
        path=f"/v1/actions/{action.name}",
        summary=action.help,
        call=_call_of_action(action.name),
        body=Fields(inputs.TargetWithSettings if action.takes_settings else inputs.Target),
        returns=getattr(outputs, action.report.returns),
        failures=(409, 502),
    )


def _call_of_action(name: str) -> Call:
    async def act(cluster: Cluster, arguments: Arguments, send: SendItem) -> Any:
        return await HANDLERS[name](cluster, _with_snake_case(arguments), send)

    return act


async def _apply(cluster: Cluster, arguments: Arguments, send: SendItem) -> Any:
    return await HANDLERS["fault"](cluster, {"values": arguments}, send)


async def _heal(cluster: Cluster, arguments: Arguments, send: SendItem) -> Any:
    fault_id = arguments["id"]
    if fault_id not in cluster.supervisor.faults.active.by_id:
        known = ", ".join(cluster.supervisor.faults.active.by_id) or "none"
        reject(404, "not_found", f"no fault {fault_id!r} in force; in force: {known}")
    return (await HANDLERS["heal"](cluster, {"ids": [fault_id]}, send))[0]


async def _heal_all(cluster: Cluster, _arguments: Arguments, send: SendItem) -> Any:
    return await HANDLERS["heal"](cluster, {"ids": ["all"]}, send)


def _call_of_add(kind: str) -> Call:
    async def add(cluster: Cluster, arguments: Arguments, send: SendItem) -> Any:
        name = arguments["nameserver" if kind == "nameserver" else "group"]
        return await HANDLERS["add"](cluster, {**_with_snake_case(arguments), "kind": kind, "of": name}, send)

    return add


def _with_snake_case(arguments: Arguments) -> Arguments:
    """Return arguments with setting names in snake case: `slave_read_enable`."""
    return {**arguments, "settings": {snake(key): value for key, value in arguments.get("settings", {}).items()}}


async def _check(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    async with _JUDGES:
        return await judge(cluster.supervisor.directory.path, arguments["metric"])


ENDPOINTS: Sequence[Endpoint] = (
    Endpoint(
        name="status",
        method="GET",
        path="/v1/status",
        summary="Nodes, replication and routes, as reported now.",
        call=HANDLERS["status"],
        returns=outputs.Status,
    ),
    Endpoint(
        name="wait",
        method="POST",
        path="/v1/wait",
        summary="Wait for a condition; return the status at that moment, or 504 if it is not true in time.",
        call=HANDLERS["wait"],
        body=Fields(inputs.Wait),
        returns=outputs.Status,
        failures=(504,),
    ),
    Endpoint(
        name="events",
        method="GET",
        path="/v1/events",
        summary="Past events, then new ones, as server-sent events.",
        call=HANDLERS["events"],
        query=Fields(inputs.Events),
        returns=outputs.Event,
        is_stream=True,
    ),
    *map(_of_action, ACTIONS.values()),
    Endpoint(
        name="add_group",
        method="POST",
        path="/v1/add/group",
        summary="Add a master and its slaves: `rmqlab add group`.",
        call=_call_of_add("group"),
        body=Fields(inputs.NewGroup),
        returns=outputs.Nodes,
        failures=(409, 502),
    ),
    Endpoint(
        name="add_slave",
        method="POST",
        path="/v1/add/slave",
        summary="Add a slave to a group: `rmqlab add slave`.",
        call=_call_of_add("slave"),
        body=Fields(inputs.NewSlave),
        returns=outputs.Nodes,
        failures=(409, 502),
    ),
    Endpoint(
        name="add_nameserver",
        method="POST",
        path="/v1/add/nameserver",
        summary="Add a nameserver, and send its address to the brokers: `rmqlab add nameserver`.",
        call=_call_of_add("nameserver"),
        body=Fields(inputs.NewNameserver),
        returns=outputs.Nodes,
        failures=(409, 502),
    ),
    Endpoint(
        name="remove",
        method="POST",
        path="/v1/remove",
        summary="Stop nodes and remove them from the cluster; their data stay on disk: `rmqlab remove`.",
        call=HANDLERS["remove"],
        body=Fields(inputs.Target),
        returns=list[outputs.RemovedNode],
        failures=(409, 502),
    ),
    Endpoint(
        name="faults",
        method="GET",
        path="/v1/faults",
        summary="The faults in force.",
        call=HANDLERS["faults"],
        returns=outputs.Faults,
    ),
    Endpoint(
        name="apply_fault",
        method="POST",
        path="/v1/faults",
        summary="Put a fault in force; return when all running nodes apply it.",
        call=_apply,
        body=FaultValues(),
        returns=outputs.Fault,
        failures=(502,),
    ),
    Endpoint(
        name="heal_all",
        method="DELETE",
        path="/v1/faults",
        summary="End all faults; return them.",
        call=_heal_all,
        returns=outputs.Faults,
        failures=(502,),
    ),
    Endpoint(
        name="heal",
        method="DELETE",
        path="/v1/faults/{id}",
        summary="End a fault; return it.",
        call=_heal,
        returns=outputs.Fault,
        failures=(502,),
    ),
    Endpoint(
        name="mark",
        method="POST",
        path="/v1/mark",
        summary="Write a line into the log of every process, and an event; return the processes: `rmqlab mark`.",
        call=HANDLERS["mark"],
        body=Fields(inputs.Mark),
        returns=list[str],
    ),
    Endpoint(
        name="check",
        method="GET",
        path="/v1/check",
        summary="Judge the run so far by journals and stores, as `rmqlab check` does.",
        call=_check,
        query=Fields(inputs.Check),
        returns=outputs.Judgement,
        failures=(504,),
    ),
    *OPERATOR_ENDPOINTS,
)
"""All endpoints, in the order of documents."""

PATHS: Mapping[str, Sequence[Endpoint]] = {
    path: [endpoint for endpoint in ENDPOINTS if endpoint.path == path]
    for path in dict.fromkeys(endpoint.path for endpoint in ENDPOINTS)
}
