"""Directories of a run with a store of no process of it, for both judges.

Such as a copy that somebody left.
"""

from collections.abc import Collection, Iterable, Iterator

from rmqlab.verdict.runrecord import RunRecord


def stray_stores(stores: Iterable[str], named: Collection[str], record: RunRecord) -> frozenset[str]:
    """Return the directories of `stores` that are of no process.

    `named` are the nodes of all journal entries. cluster.json also names nodes. Empty if neither names any of the
    directories: they are all that is left of the run then.
    """
    found = frozenset(stores)
    strays = found.difference(named, record.addresses.values())
    return strays if strays != found else frozenset()


def stray_remarks(strays: Iterable[str]) -> Iterator[str]:
    """Yield a warning about each of these directories."""
    return (
        f"{name}/store: a store, but {name} is no process of this run: its records do not count"
        for name in sorted(strays)
    )
