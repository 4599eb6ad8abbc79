"""What the page is made of: the audit's summary, and its small tables."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

SUMMARY = "audit.json"
FOLDER = "audit"
_TOLD_KINDS = (
    "command", "fault_applied", "fault_healed", "node_ready", "node_killed", "node_stopped", "node_crashed",
    "node_paused", "node_resumed", "power_lost", "store_wiped", "mark",
)  # fmt: skip
_MOST_EVENTS = 2000


class NoAuditError(Exception):
    """A run was not audited yet, or its tables are gone."""


@attrs.frozen(kw_only=True)
class RunData:
    """A run as the page shows it. Times are milliseconds of the cluster's clock."""

    directory: Path
    summary: Mapping[str, Any]
    claim: str
    """What the run was to show, where it is a scenario."""
    told: Mapping[str, Any]
    """The scenario's own verdict, where there is one."""
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

    def table(self, name: str) -> list[dict[str, Any]]:
        """All rows of a table; none where the audit made no such table."""
        path = self.tables / name
        if not path.is_dir():
            return []
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows


def read_run(directory: Path) -> RunData:
    """Read what the audit of a run left. NoAuditError."""
    path = directory / FOLDER / SUMMARY
    try:
        summary = json.loads(path.read_text())
    except FileNotFoundError:
        raise NoAuditError(f"{directory} was not audited: run `rmqlab audit {directory}` first") from None
    tables = Path(summary["tables"])
    told = _json(directory / "verdict.json")
    scenario = _json(directory / "run.json")
    return RunData(
        directory=directory,
        summary=summary,
        claim=str(told.get("claim") or scenario.get("claim") or ""),
        told=told,
        events=_events(tables / "raw_happenings"),
        tables=tables,
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _events(path: Path) -> list[dict[str, Any]]:
    try:
        table = pq.read_table(path, columns=["at", "node", "kind", "fields"], filters=[("kind", "in", _TOLD_KINDS)])
    except (FileNotFoundError, pa.ArrowInvalid) as exc:
        raise NoAuditError(f"{path} cannot be read: {exc}; audit the run again") from None
    rows: list[dict[str, Any]] = table.sort_by("at").slice(0, _MOST_EVENTS).to_pylist()
    return [row | {"fields": json.loads(row["fields"])} for row in rows]
