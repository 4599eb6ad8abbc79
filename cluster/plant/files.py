"""Violations in whole files: deleted stores and logs, and marks of a stop."""

import shutil

from rmqlab.cluster.plant.logs import unique_id
from rmqlab.cluster.plant.model import GAP, WARNING, Change, Expected, Kind, Nodes, NothingToPlantError
from rmqlab.cluster.plant.runcopy import RunCopy, any_broker
from rmqlab.store.files.checkpoint import Checkpoint

_AHEAD = 3_600_000
"""Milliseconds."""


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


def leave_abort(copy: RunCopy, nodes: Nodes) -> Change:
    """Put the file of a running broker into the store of one that stopped."""
    path = copy.store(nodes[0]) / "abort"
    if path.exists():
        raise NothingToPlantError(f"{nodes[0]} did not stop in good order")
    path.touch()
    return Change(edits=(copy.edit(nodes[0], path, None, "created"),), broker=copy.broker_of(nodes[0]))


def advance_checkpoint(copy: RunCopy, nodes: Nodes) -> Change:
    """Move a checkpoint to an hour behind the last message."""
    path = copy.store(nodes[0]) / "checkpoint"
    if not path.is_file():
        raise NothingToPlantError(f"{nodes[0]} has no checkpoint")
    checkpoint = Checkpoint.load(path)
    checkpoint.physic_msg_timestamp += _AHEAD
    checkpoint.write()
    edit = copy.edit(nodes[0], path, 0, f"time of the log set to {checkpoint.physic_msg_timestamp}")
    return Change(edits=(edit,), broker=copy.broker_of(nodes[0]))


def delete_checkpoint(copy: RunCopy, nodes: Nodes) -> Change:
    """Delete the checkpoint of a broker that stopped in good order."""
    path = copy.store(nodes[0]) / "checkpoint"
    if not path.is_file():
        raise NothingToPlantError(f"{nodes[0]} has no checkpoint")
    path.unlink()
    return Change(edits=(copy.edit(nodes[0], path, None, "deleted"),), broker=copy.broker_of(nodes[0]))


def zero_checkpoint(copy: RunCopy, nodes: Nodes) -> Change:
    """Overwrite the checkpoint of a broker that stopped in good order with zeros."""
    path = copy.store(nodes[0]) / "checkpoint"
    if not path.is_file():
        raise NothingToPlantError(f"{nodes[0]} has no checkpoint")
    path.write_bytes(bytes(path.stat().st_size))
    return Change(edits=(copy.edit(nodes[0], path, 0, "zeroed"),), broker=copy.broker_of(nodes[0]))


def delete_tables(copy: RunCopy, nodes: Nodes) -> Change:
    """Delete all tables of a broker."""
    path = copy.store(nodes[0]) / "config"
    if not path.is_dir():
        raise NothingToPlantError(f"{nodes[0]} has no tables")
    shutil.rmtree(path)
    return Change(edits=(copy.edit(nodes[0], path, None, "deleted"),), broker=copy.broker_of(nodes[0]))


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
    Kind(
        name="checkpoint-missing",
        does="the checkpoint of a broker that stopped in good order is deleted",
        where=any_broker,
        change=delete_checkpoint,
        expects=(WARNING,),
    ),
    Kind(
        name="checkpoint-zeroed",
        does="the checkpoint of a broker that stopped in good order is zeroed",
        where=any_broker,
        change=zero_checkpoint,
        expects=(WARNING,),
    ),
    Kind(
        name="tables-deleted",
        does="the directory config of a broker is deleted",
        where=any_broker,
        change=delete_tables,
        expects=(WARNING,),
        consequences=("topics_missing", "groups_missing", "offset_file_*", "delay_offset_*"),
    ),
)
