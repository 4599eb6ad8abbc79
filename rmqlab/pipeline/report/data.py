"""Input of the page: the audit's summary, and its small tables."""

import functools
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from rmqlab.pipeline.report.document import parse_summary
from rmqlab.pipeline.tables.audittable import Column
from rmqlab.pipeline.tables.audittables import TABLES
from rmqlab.runtime.regularfile import read_regular_text
from rmqlab.verdict.roles import Roles

SUMMARY = "audit.json"
FOLDER = "audit"
_REPORTED_KINDS = (
    "cluster_starting", "command", "fault_applied", "fault_healed", "node_ready", "node_killed", "node_stopped",
    "node_crashed", "node_paused", "node_resumed", "power_lost", "role_changed", "store_wiped",
)  # fmt: skip
_COLUMNS = {table.name: table.columns for table in TABLES}
_TYPES = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "boolean": pa.bool_()}
"""Arrow types by SQL types, without structs and arrays."""
_MOST_EVENTS = 2000
_MOST_BYTES = 2**30
"""Bytes of a summary."""


class NoAuditError(Exception):
    """A run has not been audited, or its tables are missing."""


@attrs.frozen(kw_only=True)
class Facts:
    """The cluster's settings, and how to repeat the run.

    Empty if a run does not record them.
    """

    role: str = ""
    """ASYNC_MASTER or SYNC_MASTER."""
    flush: str = ""
    profile: str = ""
    rate: float | None = None
    """Cluster seconds per real second."""
    version: str = ""
    seed: str = ""
    command: str = ""
    """Command that repeats the run."""
    is_simulated: bool = False
    """The times are of a virtual clock, which begins in 2023."""
    groups: int = 0
    slaves: int = 0
    nameservers: int = 0


@attrs.frozen(kw_only=True)
class RunData:
    """Data of a run for its page. Times are milliseconds of the cluster's clock."""

    directory: Path
    summary: Mapping[str, Any]
    claim: str
    """The claim that a scenario tests; empty for other runs."""
    verdict_document: Mapping[str, Any]
    """The scenario's own verdict; empty for other runs."""
    facts: Facts
    events: list[dict[str, Any]]
    tables: Path

    @property
    def began_at(self) -> int:
        return int(self.summary["began_at"])

    @property
    def ended_at(self) -> int:
        return int(self.summary["ended_at"])

    @property
    def seconds(self) -> float:
        return (self.ended_at - self.began_at) / 1000

    @property
    def findings(self) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = self.summary["findings"]
        return found

    @property
    def ready(self) -> dict[str, dict[str, Any]]:
        """Fields of each node's last `node_ready`, in the order of their starts."""
        return {row["node"]: row["fields"] for row in self.events if row["kind"] == "node_ready"}

    def role_of(self, node: str, at: int | None = None) -> str:
        """Return `master` or `slave`, at a time or at the end; empty for other nodes."""
        broker_id = self._roles.id_at(node, self.ended_at if at is None else at)
        return "" if broker_id is None else "slave" if broker_id else "master"

    @functools.cached_property
    def _roles(self) -> Roles:
        return Roles.of((row["at"], row["node"], row["kind"], row["fields"]) for row in self.events)

    def value(self, metric: str) -> int:
        """Return a finding's value as an integer; 0 if it is unknown or was not measured."""
        return int(self.findings.get(metric, {}).get("value") or 0)

    def values(self, prefix: str) -> list[tuple[str, float]]:
        """Return the known values of metrics with a prefix, except for single queues."""
        return [
            (metric, float(one["value"]))
            for metric, one in self.findings.items()
            if metric.startswith(prefix) and "@" not in metric and one["value"] is not None
        ]

    def longest(self, prefix: str) -> tuple[str, Mapping[str, Any]] | None:
        """Return the metric of this name with the largest value, and its finding."""
        known = self.values(prefix)
        if not known:
            return None
        metric, _ = max(known, key=lambda pair: pair[1])
        return metric, self.findings[metric]

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return all rows of a table; empty if the audit did not write it.

        Raises NoAuditError if it lacks columns.
        """
        path = self.tables / name
        if not path.exists():
            return []
        found = _read_table(path, self.directory)
        missing = [one.name for one in _COLUMNS[name] if not _has(found.schema, one)]
        if missing and len(found):
            raise NoAuditError(
                f"{path} lacks the columns {', '.join(missing)}: another version of rmqlab wrote it. Run"
                f" `rmqlab audit {shlex.quote(str(self.directory))}` again"
            )
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows


def read_run(directory: Path) -> RunData:
    """Read the results of a run's audit. Raises NoAuditError."""
    path = directory / FOLDER / SUMMARY
    try:
        summary = parse_summary(read_regular_text(path, _MOST_BYTES))
    except FileNotFoundError:
        raise NoAuditError(
            f"{directory} was not audited: run `rmqlab audit {shlex.quote(str(directory))}` first"
        ) from None
    except (OSError, ValueError):
        raise _damaged(path, directory) from None
    tables = path.parent  # not the path in the summary: the run may have been moved, or copied, since
    verdict_document = _json(directory / "verdict.json")
    scenario = _json(directory / "run.json")
    events = _events(tables / "raw_events", directory)
    started: Mapping[str, Any] = next((event["fields"] for event in events if event["kind"] == "cluster_starting"), {})
    return RunData(
        directory=directory,
        summary=summary,
        claim=str(verdict_document.get("claim") or scenario.get("claim") or ""),
        verdict_document=verdict_document,
        facts=_facts(_mapping(_json(directory / "cluster.json").get("spec")), started, scenario),
        events=events,
        tables=tables,
    )


def _facts(spec: Mapping[str, Any], started: Mapping[str, Any], run: Mapping[str, Any]) -> Facts:
    """Merge a cluster's record, the event of its start, and a scenario's record."""
    return Facts(
        role=str(spec.get("role") or ""),
        flush=str(spec.get("flush") or ""),
        profile=str(run.get("profile") or spec.get("profile") or ""),
        rate=_number(spec.get("rate")),
        version=str(run.get("version") or started.get("version") or ""),
        seed=str(run.get("seed") or started.get("seed") or ""),
        command=str(run.get("command") or ""),
        is_simulated=run.get("simulated") is True,
        groups=_count(spec.get("groups")),
        slaves=_count(spec.get("slaves")),
        nameservers=_count(spec.get("nameservers")),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_regular_text(path))
    except (OSError, ValueError, RecursionError):  # missing or damaged
        return {}
    return _mapping(document)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _events(path: Path, run: Path) -> list[dict[str, Any]]:
    columns = {"at": "bigint", "node": "string", "kind": "string", "fields": "string"}
    table = _read_table(path, run, columns=list(columns), filters=[("kind", "in", _REPORTED_KINDS)])
    rows: list[dict[str, Any]] = table.sort_by("at").slice(0, _MOST_EVENTS).to_pylist()
    return [row | {"fields": json.loads(row["fields"])} for row in rows]


def _read_table(path: Path, run: Path, **options: Any) -> pa.Table:
    """Return the rows of a parquet table.

    Raises NoAuditError if it is missing or damaged.
    """
    try:
        return pq.read_table(path, **options)
    except (OSError, pa.ArrowException):
        raise _damaged(path, run) from None


def _has(schema: pa.Schema, column: Column) -> bool:
    """Return True if a table has a column with its type.

    Types of structs and arrays are not compared.
    """
    kinds = [schema.field(index).type for index in schema.get_all_field_indices(column.name)]
    return len(kinds) == 1 and kinds[0] == _TYPES.get(column.type, kinds[0])


def _damaged(path: Path, run: Path) -> NoAuditError:
    return NoAuditError(f"{path} is damaged: run `rmqlab audit {shlex.quote(str(run))}` again")
