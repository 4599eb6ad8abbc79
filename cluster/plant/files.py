"""Violations in whole files: deleted stores and logs, and marks of a stop."""

import shutil

from rmqlab.cluster.plant.logs import unique_id
from rmqlab.cluster.plant.model import GAP, WARNING, Change, Expected, Kind, Nodes, NothingToPlantError
from rmqlab.cluster.plant.site import Site, any_broker
from rmqlab.store.checkpoint import Checkpoint

_AHEAD = 3_600_000
"""Milliseconds."""


def delete_store(site: Site, nodes: Nodes) -> Change:
    """Delete a node's store; its journal stays."""
    broker, edits = site.broker_of(nodes[0]), [site.edit(nodes[0], site.store(nodes[0]), None, "deleted")]
    shutil.rmtree(site.store(nodes[0]))
    return Change(edits=tuple(edits), broker=broker)


def delete_log(site: Site, nodes: Nodes) -> Change:
    """Delete a node's commit log files; queues, index and tables stay."""
    log = site.log(nodes[0])
    node_sends = {send.ids[0] for send in site.history.sends if send.is_acknowledged and len(send.ids) == 1}
    victims = list({unique_id(one): one for one in log.records() if unique_id(one) in node_sends}.values())
    edits = [site.edit(nodes[0], path, None, "deleted") for path in log.files()]
    for path in log.files():
        path.unlink()
    return site.change(nodes, victims, edits)


def leave_abort(site: Site, nodes: Nodes) -> Change:
    """Put the file of a running broker into the store of one that stopped."""
    path = site.store(nodes[0]) / "abort"
    if path.exists():
        raise NothingToPlantError(f"{nodes[0]} did not stop in good order")
    path.touch()
    return Change(edits=(site.edit(nodes[0], path, None, "created"),), broker=site.broker_of(nodes[0]))


def advance_checkpoint(site: Site, nodes: Nodes) -> Change:
    """Move a checkpoint to an hour behind the last message."""
    path = site.store(nodes[0]) / "checkpoint"
    if not path.is_file():
        raise NothingToPlantError(f"{nodes[0]} has no checkpoint")
    checkpoint = Checkpoint.load(path)
    checkpoint.physic_msg_timestamp += _AHEAD
    checkpoint.write()
    edit = site.edit(nodes[0], path, 0, f"time of the log set to {checkpoint.physic_msg_timestamp}")
    return Change(edits=(edit,), broker=site.broker_of(nodes[0]))


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
    Kind(
        name="abort-left",
        does="a broker that stopped in good order has the file abort",
        where=any_broker,
        change=leave_abort,
        expects=(WARNING,),
    ),
    Kind(
        name="checkpoint-ahead",
        does="the checkpoint of a broker has a later time than the last record of its log",
        where=any_broker,
        change=advance_checkpoint,
        expects=(WARNING,),
    ),
)
