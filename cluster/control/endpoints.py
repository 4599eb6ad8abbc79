"""The table of endpoints.

Every action of `rmqlab.cluster.actions.table` has one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.control import inputs, outputs, reads
from rmqlab.cluster.control.endpoint import Arguments, Endpoint
from rmqlab.cluster.control.inputs import FaultValues, Fields
from rmqlab.cluster.control.judging import judge
from rmqlab.cluster.control.messages import SendItem
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.commandserver import HANDLERS
from rmqlab.cluster.supervisor.topology import NodeKind

_JUDGES = trio.CapacityLimiter(1)
"""Judgements at the same time: each reads all journals and stores."""


def _of_action(action: NodeAction[Any]) -> Endpoint:
    return Endpoint(
        name=action.method,
        method="POST",
        path=f"/v1/actions/{action.name}",
        summary=action.help,
        call=HANDLERS[action.name],
        body=Fields(inputs.Target),
        returns=getattr(outputs, action.report.returns),
        failures=(409, 502),
    )


async def _apply(cluster: Cluster, arguments: Arguments, send: SendItem) -> Any:
    return await HANDLERS["fault"](cluster, {"values": arguments}, send)


async def _heal(cluster: Cluster, arguments: Arguments, send: SendItem) -> Any:
    fault_id = arguments["id"]
    if fault_id not in cluster.supervisor.faults.active.by_id:
        known = ", ".join(cluster.supervisor.faults.active.by_id) or "none"
        raise reads.NotFoundError(f"no fault {fault_id!r} in force; in force: {known}")
    return (await HANDLERS["heal"](cluster, {"ids": [fault_id]}, send))[0]


async def _heal_all(cluster: Cluster, _arguments: Arguments, send: SendItem) -> Any:
    return await HANDLERS["heal"](cluster, {"ids": ["all"]}, send)


async def _check(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    async with _JUDGES:
        return await judge(cluster.supervisor.directory.path, arguments["metric"])


async def _topics(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    if arguments["node"] is None:
        return await reads.topics(cluster.namesrv_addr)
    node, *others = cluster.supervisor.find(arguments["node"])
    if others or node.kind is not NodeKind.BROKER:
        inputs.invalid("expected one broker", field="node")
    return await reads.topics_of_broker(cluster.namesrv_addr, node.address)


async def _route(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    return await reads.route(cluster.namesrv_addr, arguments["topic"])


async def _groups(cluster: Cluster, _arguments: Arguments, _send: SendItem) -> Any:
    return await reads.groups(cluster.namesrv_addr)


async def _offsets(cluster: Cluster, arguments: Arguments, _send: SendItem) -> Any:
    return await reads.offsets(cluster.namesrv_addr, arguments["group"], arguments["topic"])


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
        summary="The topics that the nameserver in use knows, or those that one broker has.",
        call=_topics,
        query=Fields(inputs.Topics),
        returns=outputs.Topics,
        failures=(502,),
    ),
    Endpoint(
        name="topic_route",
        method="GET",
        path="/v1/topics/{topic}",
        summary="The route of a topic: its queues, and the addresses of its brokers.",
        call=_route,
        returns=outputs.Route,
        failures=(502,),
    ),
    Endpoint(
        name="groups",
        method="GET",
        path="/v1/groups",
        summary="The consumer groups of all masters.",
        call=_groups,
        returns=outputs.Groups,
        failures=(502,),
    ),
    Endpoint(
        name="offsets",
        method="GET",
        path="/v1/offsets",
        summary="The offsets of a consumer group, and its lag in messages.",
        call=_offsets,
        query=Fields(inputs.Lag),
        returns=outputs.Offsets,
        failures=(502,),
    ),
)
"""All endpoints, in the order of documents."""

PATHS: Mapping[str, Sequence[Endpoint]] = {
    path: [endpoint for endpoint in ENDPOINTS if endpoint.path == path]
    for path in dict.fromkeys(endpoint.path for endpoint in ENDPOINTS)
}
