"""Violations by deletion: a node's whole store, its log."""

import shutil

from rmqlab.cluster.plant.logs import unique_id
from rmqlab.cluster.plant.model import GAP, Change, Expected, Kind, Nodes
from rmqlab.cluster.plant.runcopy import RunCopy, any_broker


def delete_store(copy: RunCopy, nodes: Nodes) -> Change:
    """Delete a node's store; its journal stays."""
    broker, edits = copy.broker_of(nodes[0]), [copy.edit(nodes[0], copy.store(nodes[0]), None, "deleted")]
    shutil.rmtree(copy.store(nodes[0]))
    return Change(edits=tuple(edits), broker=broker)


def delete_log(copy: RunCopy, nodes: Nodes) -> Change:
    """Delete a node's commit log files; queues, index and tables stay."""
    log = copy.log(nodes[0])
    node_sends = {send.ids[0] for send in copy.history.sends if send.is_acknowledged and len(send.ids) == 1}
    victims = list({unique_id(one): one for one in log.records() if unique_id(one) in node_sends}.values())
    edits = [copy.edit(nodes[0], path, None, "deleted") for path in log.files()]
    for path in log.files():
        path.unlink()
    return copy.change(nodes, victims, edits)


FILES = (
    Kind(
        name="store-deleted",
        does="the whole store of a node is deleted",
        where=any_broker,
        change=delete_store,
        expects=(GAP,),
        consequences=("lost", "expired", "divergence", "behind", "ahead", "offset_file_behind"),
    ),
    Kind(
        name="log-deleted",
        does="the commit log files of a node are deleted, its queues and tables are there",
        where=any_broker,
        change=delete_log,
        expects=(Expected(metric="missing NODE", names_victims=True),),
        consequences=(
            "divergence",
            "behind",
            "ahead",
            "dangling",
            "unqueued",
            "unindexed",
            "corrupt",
            "replication_lag_left",
            "unreplicated",
            "gap",
        ),
    ),
)
