"""The conditions of a run, which both judges need for the verdict."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from rmqlab.runtime.config.settings import snake
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalfiles import SUPERVISOR
from rmqlab.runtime.journals.journalsurvey import JournalSurvey
from rmqlab.verdict.contradictions import is_lost_workload, start_contradictions, unnamed_processes
from rmqlab.verdict.gaps import FOLLOWED_KINDS, Gap, find_gaps
from rmqlab.verdict.roles import Roles
from rmqlab.verdict.runrecord import NO_RECORD, RunRecord

CONDITION_KINDS: Final = (
    *FOLLOWED_KINDS,
    "member_role_changed",
    "cluster_starting",
    "producer_joined",
    "consumer_joined",
    "broker_registered",
    "probed",
    "fault_applied",
    "offset_reset",
    "operated",
    "settings_changed",
)
"""Events that `read_conditions` needs."""
_LONGEST_SEND: Final = 60_000
"""Milliseconds of the cluster's clock."""
_LATE_ENTRY: Final = 10_000
"""Real milliseconds."""
CLOCK: Final = "clock"
"""The type of a fault that sets a process's clock wrong."""
DISK: Final = "disk"
"""The type of a fault of a broker's disk."""


@attrs.frozen(kw_only=True)
class Conditions:
    """The properties of a run, and the gaps in its journals."""

    role: str = ""
    """SYNC_MASTER or ASYNC_MASTER; empty if the journal does not say it, as before version 3."""
    profile: str = ""
    """4.9 or hardened; empty as for `role`."""
    rate: float | None = None
    """Cluster seconds per real second."""
    seed: str = ""
    version: str = ""
    """Version of rmqlab."""
    orderly: frozenset[str] = frozenset()
    """Consumer groups of orderly workloads."""
    outside_clients: tuple[str, ...] = ()
    """Producers that are no process of the cluster: client id and group, as brokers recorded them."""
    silent_producers: frozenset[str] = frozenset()
    """Producer groups with members of which no journal may have a check of a transaction: they are no process of the
    cluster, were killed, or still run."""
    outside_groups: frozenset[str] = frozenset()
    """Consumer groups with members that are no process of the cluster."""
    killed_workloads: tuple[str, ...] = ()
    """Workloads that did not shut down cleanly: their last sends may be in no journal."""
    running_workloads: tuple[str, ...] = ()
    """Workloads that did not end before the journals were read: their last events may be in no journal."""
    running_producers: tuple[str, ...] = ()
    """Running producers: their last sends may be in a store, but not yet in a journal."""
    reset_groups: frozenset[str] = frozenset()
    """Consumer groups whose offsets a request reset: they move back on purpose."""
    broker_names: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """Broker names of each broker, over time."""
    client_hosts: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """IP addresses of the producers of each workload, as brokers recorded them."""
    has_clock_faults: bool = False
    """True if a fault set the clock of a process."""
    changed_settings: frozenset[str] = frozenset()
    """Settings that single brokers had, or got while the cluster ran."""
    went_back: Mapping[str, int] = attrs.field(factory=dict)
    """Milliseconds by which the clock of a process went back, as the order of its own entries shows it."""
    gaps: tuple[Gap, ...] = ()

    @property
    def slack(self) -> int:
        """Return the milliseconds after which nothing is late any more.

        A minute of the cluster's clock, as a send may take, or 10 s of real time, by which a busy machine may be late.
        """
        return max(_LONGEST_SEND, round(_LATE_ENTRY * (self.rate or 1)))

    def sent_until(self, ended_at: int) -> int | None:
        """Return the store time up to which journals name all messages, in ms.

        None if they name all. `ended_at` is the time of the last event.
        """
        if not self.running_producers:
            return None
        return ended_at - self.slack

    def as_json(self) -> dict[str, Any]:
        """The members that name the run. The gaps are part of the verdict's reasons."""
        return {name: getattr(self, name) for name in ("role", "profile", "rate", "seed", "version")}


def read_conditions(
    entries: Iterable[JournalEntry], surveys: Sequence[JournalSurvey] | None, record: RunRecord = NO_RECORD
) -> Conditions:
    """Return a run's conditions from its entries of CONDITION_KINDS, in time order.

    `surveys` are of its journal files. With None, for entries that were not read from files, there are no gaps.
    `record` are the facts outside of its journals.
    """
    known = [entry for entry in entries if entry.kind in CONDITION_KINDS]
    starting = next((entry.fields for entry in known if entry.kind == "cluster_starting"), {})
    running = _running_workloads(known)
    return Conditions(
        role=str(starting.get("role") or ""),
        profile=str(starting.get("profile") or ""),
        rate=starting.get("rate"),
        seed=str(starting.get("seed") or ""),
        version=str(starting.get("version") or ""),
        orderly=frozenset(
            str(entry.fields.get("group"))
            for entry in known
            if entry.kind == "node_ready" and entry.fields.get("orderly") is True
        ),
        outside_clients=tuple(dict.fromkeys(_outside_clients(known, record))),
        silent_producers=frozenset(_silent_producers(known, {*_killed_workloads(known), *running})),
        outside_groups=frozenset(_outside_groups(known)),
        killed_workloads=tuple(sorted(_killed_workloads(known))),
        running_workloads=tuple(sorted(running)),
        running_producers=tuple(sorted(node for node, ready in running.items() if "group" not in ready.fields)),
        reset_groups=frozenset(_reset_groups(known)),
        broker_names=Roles.of((one.at_millis, one.node, one.kind, one.fields) for one in known).names,
        client_hosts=_client_hosts(known),
        has_clock_faults=any(one.kind == "fault_applied" and one.fields.get("fault") == CLOCK for one in known),
        changed_settings=_changed_settings(known, record),
        went_back={one.process: one.went_back for one in surveys or () if one.process != SUPERVISOR and one.went_back},
        gaps=() if surveys is None else _gaps(surveys, known, record),
    )


def _gaps(surveys: Sequence[JournalSurvey], entries: Sequence[JournalEntry], record: RunRecord) -> tuple[Gap, ...]:
    supervised = [one for one in entries if one.kind in FOLLOWED_KINDS]
    are_clocks_right = not any(one.kind == "fault_applied" and one.fields.get("fault") == CLOCK for one in entries)
    starting = next((entry.fields for entry in entries if entry.kind == "cluster_starting"), {})
    return (
        *find_gaps(surveys, supervised, are_clocks_right=are_clocks_right, recorded_run=record.run),
        *start_contradictions(starting, record, _changed_settings(entries, record)),
        *unnamed_processes(entries, record),
    )


def _changed_settings(entries: Sequence[JournalEntry], record: RunRecord) -> frozenset[str]:
    """Return settings that a restart or a request may have changed."""
    changes = (entry.fields.get("changes") for entry in entries if entry.kind == "settings_changed")
    requested = {snake(str(key)) for one in changes if isinstance(one, Mapping) for key in one}
    is_record_lost = bool(record.settings) and not record.role
    restarted = {"profile"} if is_record_lost and _has_restarted_broker(entries) else set()
    return record.own_keys | requested | restarted


def _has_restarted_broker(entries: Sequence[JournalEntry]) -> bool:
    ready = [entry.node for entry in entries if entry.kind == "node_ready" and entry.fields.get("broker_name")]
    return len(ready) > len(set(ready))


def _outside_clients(entries: Sequence[JournalEntry], record: RunRecord) -> Iterator[str]:
    """Yield the clients that are not processes of the cluster, and accepted probes.

    A client's id is `ip@pid#number`, as in Java's client: the pid of a workload belongs to the cluster.
    """
    pids = _pids(entries)
    for entry in entries:
        if entry.kind == "producer_joined":
            if _is_outside(entry, pids) and not is_lost_workload(entry, pids, record):
                yield f"{entry.fields.get('client_id')} of group {entry.fields.get('group')}"
        elif entry.kind == "probed" and entry.fields.get("code") == 0:
            yield f"the probe of {entry.node}"


def _silent_producers(entries: Sequence[JournalEntry], unsure: Collection[str]) -> Iterator[str]:
    nodes = _nodes_by_pid(entries)
    for entry in entries:
        if entry.kind == "producer_joined":
            node = nodes.get(_pid_of(entry))
            if node is None or node in unsure:
                yield str(entry.fields.get("group"))


def _outside_groups(entries: Sequence[JournalEntry]) -> Iterator[str]:
    pids = _pids(entries)
    joined = (entry for entry in entries if entry.kind == "consumer_joined")
    return (str(entry.fields.get("group")) for entry in joined if _is_outside(entry, pids))


def _client_hosts(entries: Sequence[JournalEntry]) -> dict[str, frozenset[str]]:
    nodes = _nodes_by_pid(entries)
    found: dict[str, set[str]] = {}
    for entry in entries:
        if entry.kind == "producer_joined":
            host = str(entry.fields.get("client_id")).partition("@")[0]
            if node := nodes.get(_pid_of(entry)):
                found.setdefault(node, set()).add(host)
    return {node: frozenset(hosts) for node, hosts in found.items()}


def _pids(entries: Sequence[JournalEntry]) -> set[str]:
    return set(_nodes_by_pid(entries))


def _nodes_by_pid(entries: Sequence[JournalEntry]) -> dict[str, str]:
    return {str(entry.fields.get("pid")): entry.node for entry in entries if entry.kind == "node_spawned"}


def _pid_of(joined: JournalEntry) -> str:
    """Return the process id in the id of a client that joined, as text."""
    return str(joined.fields.get("client_id")).partition("@")[2].partition("#")[0]


def _is_outside(joined: JournalEntry, pids: Collection[str]) -> bool:
    return _pid_of(joined) not in pids


def _killed_workloads(entries: Sequence[JournalEntry]) -> set[str]:
    nodes = {entry.node for entry in entries if entry.kind == "node_ready" and entry.fields.get("address")}
    return {entry.node for entry in entries if entry.kind in ("node_killed", "node_crashed")} - nodes


def _reset_groups(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """Yield the groups whose offsets an operator set.

    Without members online, the offsets are committed to the brokers, which record no reset.
    """
    for entry in entries:
        if entry.kind == "offset_reset":
            yield str(entry.fields.get("group"))
        elif entry.kind == "operated" and str(entry.fields.get("operation")).startswith("reset-offset "):
            result = entry.fields.get("result")
            yield from [str(result["group"])] if isinstance(result, dict) and result.get("group") else []


def _running_workloads(entries: Sequence[JournalEntry]) -> dict[str, JournalEntry]:
    """Return the `node_ready` of each workload that runs.

    That of a consumer has its group.
    """
    changes = ("node_ready", "node_stopped", "node_killed", "node_crashed")
    last = {entry.node: entry for entry in entries if entry.kind in changes}
    return {node: one for node, one in last.items() if one.kind == "node_ready" and not one.fields.get("address")}
