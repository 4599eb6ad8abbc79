"""Connections for operations on a cluster of the lab, from within its supervisor."""

from rmqlab.cluster.operate.session import Connection
from rmqlab.cluster.supervisor.plan.topology import NodeKind
from rmqlab.cluster.supervisor.supervisor import Supervisor


def connection_to(supervisor: Supervisor, access_key: str = "", secret_key: str = "") -> Connection:
    """Return a connection with the names of the nodes and the cluster's time."""
    brokers = [node for node in supervisor.nodes.values() if node.kind is NodeKind.BROKER]
    return Connection(
        namesrv_addr=supervisor.namesrv_addr,
        nodes={node.name: node.address for node in brokers},
        now_millis=supervisor.clock.wall_millis,
        access_key=access_key,
        secret_key=secret_key,
    )
