"""Warnings of tables and index files that their broker cannot have written."""

from collections.abc import Iterator

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.records import ended_in_good_order
from rmqlab.store.sidefiles import side_remarks
from rmqlab.verdict.causes import STALE_INDEX_KINDS


def remarks(history: History, stores: Stores) -> Iterator[str]:
    """Yield a line for each such file. Raises OSError."""
    roots = {store.node: store.root for store in stores.nodes.values() if store.root is not None}
    losses = {entry.node for entry in history.of_kind("power_lost")}
    ends = {entry.node for entry in history.of_kind(*STALE_INDEX_KINDS)}
    unclean = ends | {node for node in roots if not ended_in_good_order(node, history)}
    return side_remarks(roots, history.roles.followers, after_power_loss=losses, unclean=unclean)
