"""The table of endpoints.

Every action of `rmqlab.cluster.actions.table` has one.
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
from rmqlab.cluster.control.reads import read
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.operate import groups, offsets, topics
from rmqlab.cluster.operate.session import Operator
from rmqlab.cluster.supervisor.commandserver import HANDLERS
from rmqlab.runtime.settings import snake

_JUDGES = trio.CapacityLimiter(1)
"""Judgements at the same time: each reads all journals and stores."""


def _of_action(action: NodeAction[Any]) -> Endpoint:
    return Endpoint(
        name=action.method,
        method="POST",
        path=f"/v1/actions/{action.name}",
        summary=action.help,
        call=_acting(action.name),
        body=Fields(inputs.TargetWithSettings if action.takes_settings else inputs.Target),
        returns=getattr(outputs, action.report.returns),
        failures=(409, 502),
    )


def _acting(name: str) -> Call:
    async def act(cluster: Cluster, arguments: Arguments, send: SendItem) -> Any:
        return await HANDLERS[name](cluster, _spelled(arguments), send)

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


def _adding(kind: str) -> Call:
    async def add(cluster: Cluster, arguments: Arguments, send: SendItem) -> Any:
        name = arguments["nameserver" if kind == "nameserver" else "group"]
        return await HANDLERS["add"](cluster, {**_spelled(arguments), "kind": kind, "of": name}, send)

    return add


def _spelled(arguments: Arguments) -> Arguments:
    """Return arguments whose settings have our spelling: `slave_read_enable`."""
    return {**arguments, "settings": {snake(key): value for key, value in arguments.get("settings", {}).items()}}


async def _check(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    async with _JUDGES:
        return await judge(cluster.supervisor.directory.path, arguments["metric"])


async def _topics(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    async def operation(operator: Operator) -> topics.Topics:
        found = await topics.list_topics(operator)
        return found if arguments["all"] else found.of_applications()

    return await read(cluster, arguments["account"], operation)


async def _route(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    return await read(cluster, arguments["account"], lambda operator: topics.topic_route(operator, arguments["topic"]))


async def _groups(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    async def operation(operator: Operator) -> list[groups.Group]:
        return [one for one in await groups.list_groups(operator) if arguments["all"] or not one.is_system]

    return await read(cluster, arguments["account"], operation)


async def _all_lags(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    return await read(cluster, arguments["account"], groups.all_lags)


async def _lag(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    async def operation(operator: Operator) -> list[groups.GroupLag]:
        return [await groups.group_lag(operator, arguments["group"], arguments["topic"])]

    return await read(cluster, arguments["account"], operation)


async def _offsets(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    async def operation(operator: Operator) -> offsets.GroupOffsets:
        return await offsets.show_offsets(operator, arguments["group"], arguments["topic"])

    return await read(cluster, arguments["account"], operation)


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
        call=_adding("group"),
        body=Fields(inputs.NewGroup),
        returns=outputs.Nodes,
        failures=(409, 502),
    ),
    Endpoint(
        name="add_slave",
        method="POST",
        path="/v1/add/slave",
        summary="Add a slave to a group: `rmqlab add slave`.",
        call=_adding("slave"),
        body=Fields(inputs.NewSlave),
        returns=outputs.Nodes,
        failures=(409, 502),
    ),
    Endpoint(
        name="add_nameserver",
        method="POST",
        path="/v1/add/nameserver",
        summary="Add a nameserver, and give its address to the brokers: `rmqlab add nameserver`.",
        call=_adding("nameserver"),
        body=Fields(inputs.NewNameserver),
        returns=outputs.Nodes,
        failures=(409, 502),
    ),
    Endpoint(
        name="remove",
        method="POST",
        path="/v1/remove",
        summary="Stop nodes and take them out of the cluster; their data stay on disk: `rmqlab remove`.",
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
        summary="Put a fault in force; return when all running nodes play it.",
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
        name="check",
        method="GET",
        path="/v1/check",
        summary="Judge the run so far by journals and stores, as `rmqlab check` does.",
        call=_check,
        query=Fields(inputs.Check),
        returns=outputs.Judgement,
        failures=(504,),
    ),
    Endpoint(
        name="topics",
        method="GET",
        path="/v1/topics",
        summary="The topics, with their queues and permission at each broker: `rmqlab topics list`.",
        call=_topics,
        query=Fields(inputs.Listing),
        returns=topics.Topics,
        takes_account=True,
        failures=(502,),
    ),
    Endpoint(
        name="topic_route",
        method="GET",
        path="/v1/topics/{topic}",
        summary="Which brokers serve a topic: `rmqlab topics route`.",
        call=_route,
        returns=list[topics.RouteAt],
        takes_account=True,
        failures=(502,),
    ),
    Endpoint(
        name="groups",
        method="GET",
        path="/v1/groups",
        summary="The consumer groups, with their settings at each broker: `rmqlab groups list`.",
        call=_groups,
        query=Fields(inputs.Listing),
        returns=list[groups.Group],
        takes_account=True,
        failures=(502,),
    ),
    Endpoint(
        name="all_lags",
        method="GET",
        path="/v1/lag",
        summary="How far all consumer groups are behind: `rmqlab groups lag`.",
        call=_all_lags,
        returns=list[groups.GroupLag],
        takes_account=True,
        failures=(502,),
    ),
    Endpoint(
        name="lag",
        method="GET",
        path="/v1/lag/{group}",
        summary="How far one consumer group is behind: `rmqlab groups lag GROUP`.",
        call=_lag,
        query=Fields(inputs.Lag),
        returns=list[groups.GroupLag],
        takes_account=True,
        failures=(502,),
    ),
    Endpoint(
        name="offsets",
        method="GET",
        path="/v1/offsets",
        summary="The committed offsets of a consumer group, at master and slaves: `rmqlab offsets show`.",
        call=_offsets,
        query=Fields(inputs.Offsets),
        returns=offsets.GroupOffsets,
        takes_account=True,
        failures=(502,),
    ),
)
"""All endpoints, in the order of documents."""

PATHS: Mapping[str, Sequence[Endpoint]] = {
    path: [endpoint for endpoint in ENDPOINTS if endpoint.path == path]
    for path in dict.fromkeys(endpoint.path for endpoint in ENDPOINTS)
}
