"""Detects missing log files of a store, and weakens findings that depend on them.

A broker emits an event when it removes log files (REMOVING_KINDS). If it recorded a later end of its log than the files
have, and no event explains that, the store is incomplete: the absence of a record then proves nothing. Both judges call
`log_trouble`; `weaken_by_stores` withdraws the findings.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import attrs

from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.findings import Finding

EPOCH_KINDS: Final = ("node_ready", *REMOVING_KINDS)
"""Kinds of the events that `last_epochs` needs."""

Extent = tuple[int, int]
"""Commit log offsets of a file's first byte, and of the byte behind its last one."""

_UNKNOWN: Final = ("dangling",)
"""Metrics of a node that an incomplete log makes unknown: queue entries point at the missing bytes."""
_FLOORS: Final = ("corrupt", "unqueued", "unindexed", "topics_missing", "delay_offset_behind")
"""Metrics of a node that an incomplete log can only make too low."""
_UNKNOWN_IF_MISPLACED: Final = ("offset_file_behind", "offset_file_ahead", "groups_missing")
"""Metrics of a node's tables. Beside a log of another broker or run, these may belong to it, too."""
_FLOORS_OF_ALL: Final = ("order.stored", "stored_unsent")
"""The same, of all stores together."""
_COUNTS_OF_ALL: Final = (
    "stored_twice",
    "place_disagreement",
    "content_disagreement",
    "origin_disagreement",
    "header_disagreement",
    "store_time_disagreement",
    "stored_uncommitted",
    "delivered_early",
    "overdue",
    "stored.indeterminate",
    "stored.refused",
    *_FLOORS_OF_ALL,
)
"""Metrics of all stores together to which records of another store add."""


@attrs.frozen(kw_only=True)
class LogEpoch:
    """The time since a broker last started, or last removed records of its log."""

    since: int
    """Milliseconds of the cluster's clock."""
    has_removed_files: bool
    """True if the broker removed files of its log: then the expected begin of the log is unknown."""
    is_in_fragments: bool = False
    """True between a power loss and the next start: any part of the last writes may be on disk."""


@attrs.frozen(kw_only=True)
class Samples:
    """The lowest end above 0, and the highest, that a broker recorded of its log.

    Of one epoch only.
    """

    lowest: int | None
    highest: int


def last_epochs(events: Iterable[tuple[int, str, str]]) -> Mapping[str, LogEpoch]:
    """Return the last epoch of each broker.

    `events` are those of EPOCH_KINDS as (time, node, kind), in order of time.
    """
    epochs: dict[str, LogEpoch] = {}
    for at, node, kind in events:
        before = epochs.get(node)
        has_removed = before is not None and before.has_removed_files
        if kind == "node_ready":
            epochs[node] = LogEpoch(since=at, has_removed_files=has_removed)
        elif kind == "file_deleted":
            epochs[node] = LogEpoch(since=before.since if before else at, has_removed_files=True)
        elif kind in REMOVING_KINDS:
            epochs[node] = LogEpoch(since=at, has_removed_files=True, is_in_fragments=kind == "power_lost")
    return epochs


def log_trouble(
    directory: str,
    extents: Sequence[Extent],
    samples: Samples | None,
    epoch: LogEpoch | None,
    *,
    has_recorded: bool = True,
) -> str:
    """Return which bytes no file of a log has; empty if none are known.

    `extents` are those of its files, in order; `directory` is named in the text. `has_recorded` is False if the journal
    of the broker has no end of its log at all: then it lacks deletions of files, too.
    """
    if epoch is None:
        return ""
    missing = [] if epoch.has_removed_files else list(_inner(extents))
    begin, end = (extents[0][0], extents[-1][1]) if extents else (0, 0)
    if not has_recorded and not epoch.has_removed_files and begin:
        missing.insert(0, (0, begin))
    if samples is not None:
        if not epoch.has_removed_files and samples.lowest is not None and extents and samples.lowest <= begin:
            missing.insert(0, (0, begin))
        if samples.highest > end:
            missing.append((end, samples.highest))
    if not missing:
        return ""
    ranges = ", ".join(f"{first} to {last}" for first, last in missing)
    return f"{directory} has no file with bytes {ranges} of the log, and no event removed them"


def _inner(extents: Sequence[Extent]) -> Iterator[Extent]:
    """Yield the ranges between files."""
    for (_, end), (begin, _) in itertools.pairwise(extents):
        if end < begin:
            yield end, begin


class Stray(Protocol):
    """Bytes behind the end of a log; see `rmqlab.store.log.logheads.StrayBytes`."""

    @property
    def file(self) -> str: ...
    @property
    def at(self) -> int: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...


@attrs.frozen(kw_only=True)
class LogState:
    """Problems of the files of a log."""

    trouble: str = ""
    """Text about missing and foreign files: then the absence of a record proves nothing."""
    is_misplaced: bool = False
    """True if the log has files of another broker or run."""
    remark: str = ""
    """Warnings: bytes that the broker wrote and that are not a record (messages in them count as lost), and bytes after
    the end of the log that no broker wrote."""


def log_state(
    directory: str,
    extents: Sequence[Extent],
    samples: Samples | None,
    epoch: LogEpoch | None,
    *,
    misplaced: str = "",
    tail: Extent | None = None,
    stray: Stray | None = None,
    has_recorded: bool = True,
) -> LogState:
    """Return the state of a log.

    `misplaced` is what `rmqlab.verdict.misplaced` says of its files, `tail` are bytes up to the highest sample that are
    no record, `stray` are bytes behind the last record. See `log_trouble` for the others.
    """
    missing = log_trouble(directory, extents, samples, epoch, has_recorded=has_recorded)
    remarks = []
    if tail is not None and epoch is not None and not missing:
        remarks.append(
            f"{directory}: bytes {tail[0]} to {tail[1]} are no record, although the broker recorded that its log ends"
            f" at {tail[1]}, and no event removed them: they were zeroed, overwritten, or never reached the file"
        )
    if stray is not None and epoch is not None and not epoch.is_in_fragments:
        remarks.append(
            f"{stray.file} at byte {stray.at}: bytes {stray.begin} to {stray.end} of the log are behind its last"
            " record, and neither a record nor zero: no broker wrote them there"
        )
    trouble = "; ".join(filter(None, (missing, misplaced)))
    return LogState(trouble=trouble, is_misplaced=bool(misplaced), remark="; ".join(remarks))


def weaken_by_stores(
    findings: Iterable[Finding],
    troubles: Mapping[str, str],
    misplaced: Collection[str] = (),
    broker_names: Mapping[str, Collection[str]] | None = None,
) -> Iterator[Finding]:
    """Yield the findings; weaken those that depend on an incomplete log.

    They become unknown or lower bounds. `troubles` are the results of `log_trouble` by node. `misplaced` are the nodes
    whose logs have files of other brokers or runs (`rmqlab.verdict.misplaced`); their values are unknown, not lower
    bounds, except for what other brokers than theirs store. `broker_names` are those of each node. Metrics about
    messages in any store handle incomplete logs where they are computed, like stores that were not given.
    """
    every = "; ".join(f"{node}: {why}" for node, why in troubles.items())
    foreign = "; ".join(f"{node}: {why}" for node, why in troubles.items() if node in misplaced)
    of_foreign = {name for node in misplaced for name in (broker_names or {}).get(node, (node,))}
    for finding in findings:
        name, _, target = finding.metric.partition(" ")
        why = every if name in _FLOORS_OF_ALL else troubles.get(target, "")
        is_floor = name in _FLOORS or name in _FLOORS_OF_ALL
        if foreign and name in _COUNTS_OF_ALL:
            yield finding.without(of_foreign) or finding.withdrawn(foreign)
        elif not why or not finding.is_known or not (is_floor or name in (*_UNKNOWN, *_UNKNOWN_IF_MISPLACED)):
            yield finding
        elif target in misplaced:
            yield finding.withdrawn(why)
        elif name in _UNKNOWN_IF_MISPLACED:
            yield finding
        elif is_floor and finding.value:
            yield attrs.evolve(finding, is_at_least=True)
        else:
            yield finding.withdrawn(why)
