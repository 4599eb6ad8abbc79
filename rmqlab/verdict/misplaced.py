"""Detects log files that were copied from another offset, broker or run.

Each record has its commit log offset, the address of the broker that stored it, and its store time. If the first record
of a file contradicts the run, the file is not of this log: then neither its records nor the absence of records prove
anything. Both judges call `misplaced_files`.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import attrs

Event = tuple[int, str, str, Mapping[str, Any]]
"""Time, node, kind and fields of a journal entry."""

RUN_FACT_KINDS: Final = ("node_ready", "log_sampled", "fault_applied", "cluster_stopped")
"""Kinds of the events that `run_facts_of` needs."""
_SLACK: Final = 10_000
"""Minimum distance in milliseconds between a run and records of another run."""


class FirstRecord(Protocol):
    """The first record of a log file; see `rmqlab.store.log.logheads.LogHead`."""

    @property
    def file(self) -> str: ...
    @property
    def begin(self) -> int: ...
    @property
    def stated(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def stored_at(self) -> int: ...


@attrs.frozen(kw_only=True)
class RunFacts:
    """Facts about a run's brokers, from the journals."""

    began_at: int
    """Milliseconds of the cluster's clock, as `ended_at`."""
    ended_at: int | None
    """None unless the whole cluster stopped."""
    brokers: Mapping[str, frozenset[str]]
    """The broker names of each node, over the run."""
    hosts: Mapping[str, frozenset[str]]
    """The broker names at each address, over the run."""
    first_ends: Mapping[str, int]
    """Where the log of each node ended when the node first recorded it."""
    are_clocks_right: bool
    """False in a run with a `clock` fault: times are no evidence then."""

    def new_from(self, node: str) -> int | None:
        """Return the log offset from which a node's records were stored in the run.

        None if it is unknown. A slave also receives records that its master stored before the run.
        """
        own = self.brokers.get(node, frozenset())
        group = [other for other, names in self.brokers.items() if names & own]
        ends = [self.first_ends.get(other) for other in group]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(group) else None


def run_facts_of(events: Iterable[Event], began_at: int) -> RunFacts:
    """Return the facts of a run from its events of RUN_FACT_KINDS, in order of time."""
    brokers: dict[str, set[str]] = collections.defaultdict(set)
    hosts: dict[str, set[str]] = collections.defaultdict(set)
    first_ends: dict[str, int] = {}
    are_clocks_right, ended_at = True, None
    for at, node, kind, fields in events:
        if kind == "node_ready" and (name := fields.get("broker_name")):
            brokers[node].add(str(name))
            hosts[str(fields.get("address"))].add(str(name))
        elif kind == "log_sampled":
            first_ends.setdefault(node, int(fields["max_offset"]))
        elif kind == "fault_applied" and fields.get("fault") == "clock":
            are_clocks_right = False
        elif kind == "cluster_stopped":
            ended_at = at
    return RunFacts(
        began_at=began_at,
        ended_at=ended_at,
        brokers={node: frozenset(names) for node, names in brokers.items()},
        hosts={host: frozenset(names) for host, names in hosts.items()},
        first_ends=first_ends,
        are_clocks_right=are_clocks_right,
    )


def misplaced_files(node: str, records: Iterable[FirstRecord], facts: RunFacts) -> str:
    """Return a text about files that are not of this node's log; empty without any.

    The text has the probable origin of each.
    """
    return "; ".join(f"{record.file} {why}" for record in records for why in _why_misplaced(node, record, facts))


def _why_misplaced(node: str, record: FirstRecord, facts: RunFacts) -> Iterator[str]:
    """Yield one reason at most.

    Records from before the run may have any address: ports and names may have been others then.
    """
    new_from, theirs = facts.new_from(node), facts.hosts.get(record.host, frozenset())
    early = facts.began_at - record.stored_at
    late = record.stored_at - facts.ended_at if facts.ended_at is not None else 0
    if record.stated != record.begin:
        yield f"begins with a record of commit log offset {record.stated}: it is another file of this or of another log"
    elif theirs and early <= _SLACK and not theirs & facts.brokers.get(node, theirs):
        owners = ", ".join(sorted(theirs))
        yield f"begins with a record that {owners} stored ({record.host}): it is a file of that broker"
    elif not facts.are_clocks_right or new_from is None or record.begin < new_from:
        return
    elif early > _SLACK:
        yield f"begins with a record stored {early / 1000:.0f} s before the run: it is a file of another run"
    elif late > _SLACK:
        yield f"begins with a record stored {late / 1000:.0f} s after the run: it is a file of another run"
