"""Gaps that files outside of the supervisor's journal show in it.

The supervisor's journal names role, profile and rate of the run, and each process. `cluster.json`, the settings of
brokers and the journals of servers name them, too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalfiles import SUFFIX, SUPERVISOR
from rmqlab.verdict.gaps import Gap
from rmqlab.verdict.metrics import Source
from rmqlab.verdict.roles import MASTER_ID
from rmqlab.verdict.rules import ASYNC_MASTER, PROFILES
from rmqlab.verdict.runrecord import RECORD, RunRecord

JOINED: Final = {"producer_joined": Source.PRODUCERS, "consumer_joined": Source.CONSUMERS}
"""Events of brokers about their clients, with the journals that such clients keep."""
_SHOWN: Final = 3


def start_contradictions(
    starting: Mapping[str, Any], record: RunRecord, changed: Collection[str] = ()
) -> Iterator[Gap]:
    """Yield a gap if `cluster_starting` has another role, profile or rate.

    `starting` are its fields; empty without the event. `changed` are settings that brokers may have got after it.
    """
    lines = [
        f"{name} {starting[name]}, and {RECORD} has {known}"
        for name, known in (("role", record.role), ("profile", record.profile), ("rate", record.rate))
        if known and starting.get(name) not in (None, "", known)
    ]
    lines += _other_settings(starting, record.settings.values(), changed)
    if lines:
        text = f"journal/{SUPERVISOR}{SUFFIX}: cluster_starting has {'; '.join(lines)}: one of them was changed"
        yield Gap(process=SUPERVISOR, sources=frozenset({Source.SUPERVISOR}), text=text, may_exceed=True)


def _other_settings(
    starting: Mapping[str, Any], settings: Iterable[Mapping[str, Any]], changed: Collection[str]
) -> Iterator[str]:
    """Yield role and profile that no broker's config.toml has."""
    roles = {str(own.get("broker_role", ASYNC_MASTER)) for own in settings if own.get("broker_id") == MASTER_ID}
    profiles = {str(own.get("profile", PROFILES[0])) for own in settings}
    for name, key, found in (("role", "broker_role", roles), ("profile", "profile", profiles)):
        if found and key not in changed and starting.get(name) and str(starting[name]) not in found:
            yield f"{name} {starting[name]}, and config.toml of brokers has {', '.join(sorted(found))}"


def unnamed_processes(entries: Sequence[JournalEntry], record: RunRecord) -> Iterator[Gap]:
    """Yield a gap for each kind of process that the supervisor does not name.

    `entries` are those of CONDITION_KINDS. A client at an address of workloads is one, and so is a broker at the
    address of a node.
    """
    started = {entry.node for entry in entries if entry.kind in ("node_spawned", "node_ready")}
    pids = {str(entry.fields.get("pid")) for entry in entries if entry.kind == "node_spawned"}
    unnamed = [name for name in record.directories if name not in started]
    for kind, source in JOINED.items():
        joined = (entry for entry in entries if entry.kind == kind and is_lost_workload(entry, pids, record))
        clients = list(dict.fromkeys(_client(entry) for entry in joined))
        if clients:
            also = f"; the run has directories of such processes: {_list(unnamed)}" if unnamed else ""
            yield _gap(source, f"brokers recorded {_list(clients)} at addresses of the cluster's workloads{also}")
    brokers = dict.fromkeys(
        f"{name} ({entry.fields.get('address')})"
        for entry in entries
        if entry.kind == "broker_registered"
        and (name := record.addresses.get(_host(entry.fields.get("address")))) is not None
        and name not in started
    )
    if brokers:
        yield _gap(Source.BROKERS, f"nameservers registered {_list(list(brokers))}")


def is_lost_workload(joined: JournalEntry, pids: Collection[str], record: RunRecord) -> bool:
    """Return True for a client with a workload's address that was never started.

    A client's id is `ip@pid#number`.
    """
    host, _, rest = str(joined.fields.get("client_id")).partition("@")
    return record.is_workload_address(host) and rest.partition("#")[0] not in pids


def _gap(source: Source, text: str) -> Gap:
    missing = (
        f"{text}, and journal/{SUPERVISOR}{SUFFIX} does not name these processes: entries and journals are missing"
    )
    return Gap(process="", sources=frozenset({source, Source.SUPERVISOR}), text=missing)


def _client(joined: JournalEntry) -> str:
    return f"{joined.fields.get('client_id')} of group {joined.fields.get('group')}"


def _host(address: object) -> str:
    return str(address).rpartition(":")[0]


def _list(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
