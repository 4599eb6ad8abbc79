"""The modules that nodes run."""

from collections.abc import Mapping

from rmqlab.cluster.supervisor.fork.forklaunch import BROKER_MODULE, MEMBER_MODULE, NAMESERVER_MODULE
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind

MODULES: Mapping[NodeKind, str] = {NodeKind.NAMESERVER: NAMESERVER_MODULE, NodeKind.BROKER: BROKER_MODULE}


def module_of(node: Node, modules: Mapping[NodeKind, str]) -> str:
    """Return the module of a node, chosen by kind.

    A member of a DLedger group has a module of its own, unless another one than ours plays brokers.
    """
    module = modules[node.kind]
    return MEMBER_MODULE if node.member_id is not None and module == BROKER_MODULE else module
