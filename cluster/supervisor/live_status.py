"""The status of a running cluster, collected from its nodes."""

import os

from rmqlab.cluster.supervisor.plan.status import Document, masters_behind, status_document
from rmqlab.cluster.supervisor.plan.topology import NodeKind
from rmqlab.cluster.supervisor.supervisor import Supervisor


async def live_status(supervisor: Supervisor) -> Document:
    """Return the document of `rmqlab status --json`.

    Workloads that have ended are left out.
    """
    head, processes = _head(supervisor), supervisor.processes
    facts = await processes.snapshots()
    for master in masters_behind(supervisor.nodes.values(), facts):  # its snapshot can be older than its slave's
        facts[master] = await processes.snapshot(master)
    shown = [
        node
        for node in supervisor.nodes.values()
        if node.kind is not NodeKind.WORKLOAD or supervisor.process_state(node.name).is_alive
    ]
    return status_document(head, shown, processes.states, facts, str(supervisor.directory.path))


def _head(supervisor: Supervisor) -> Document:
    """Return the members about the cluster as a whole."""
    spec = supervisor.spec
    return {
        "name": spec.name,
        "namesrv_addr": supervisor.namesrv_addr,
        "mode": spec.mode,
        "profile": spec.broker_settings.get("profile", spec.profile),
        "broker_settings": dict(spec.broker_settings),
        "node_settings": {target: dict(given) for target, given in spec.node_settings.items()},
        "rate": spec.rate,
        "moved": supervisor.moved,
        "clock_millis": supervisor.clock.wall_millis(),
        "supervisor_pid": os.getpid(),
        "directory": str(supervisor.directory.path),
        "faults": [active.as_json() for active in supervisor.faults.active.by_id.values()],
        "internal_errors": dict(supervisor.processes.errors.counts),
    }
