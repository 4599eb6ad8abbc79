"""Journals with odd values: each field of each kind of event, in a small run."""

import collections
import math
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgpack

from rmqlab.runtime.journals.journalentry import CLOSED, OPENED, JournalEntry
from rmqlab.runtime.journals.journalfiles import SUFFIX, SUPERVISOR
from rmqlab.runtime.journals.journalreader import read_journal
from rmqlab.runtime.journals.schema import EVENT_TYPES, Field

MISSING: Final = object()
VALUES: Final[tuple[object, ...]] = (
    None, math.inf, -math.inf, math.nan, 1.5, -1, 0, 2**31, 2**62, 2**63 - 1, -(2**63), 2**64 - 1, True, False, "", "x",
    "²", "9" * 5000, "orders@broker-a:" + "9" * 20, b"\xff", [], [1], [[1]], {}, {"a": 1}, {"a": {"b": 1}}, {1: [1]},
    {1: [1, 2, 3]}, {"1": ["a", None]}, {1: [-(2**63), 2**63 - 1]}, {"...": 7}, {b"k": 1}, {"a": [[[[math.inf]]]]},
    MISSING,
)  # fmt: skip
"""Values of other types or ranges than any field has."""
_USUAL: Final[Mapping[str, Any]] = {
    "text": "x", "int": 0, "float": 1.0, "bool": True, "any": 1, "list": ["orders@broker-a:0"],
    "map": {"broker-a": {"0": "127.77.1.20:10911"}},
}  # fmt: skip
_NAMED: Final[Mapping[str, Any]] = {
    "topic": "orders", "broker": "broker-a", "broker_name": "broker-a", "key": "orders@shop", "queues": {0: [9, 3]},
    "outcome": "refused", "group": "shop",
}  # fmt: skip
_WRITERS: Final[Mapping[str, str]] = {
    "workload": "consume-1", "broker": "broker-a-s", "nameserver": "namesrv-1", "nameserver or broker": "namesrv-1",
    "any": "broker-a-s", "supervisor": "broker-a-s",
}  # fmt: skip
_OTHERS: Final = (
    OPENED, "cluster_starting", "cluster_stopping", "cluster_stopped", "node_stopped", "node_killed", "node_crashed",
    "produced", "consumed",
)  # fmt: skip
"""Kinds that would end the run, or count its messages."""


def odd_entries(value: object) -> Iterable[tuple[str, JournalEntry]]:
    """Yield process and entry for each field of each kind, with this value in it."""
    for kind, event in EVENT_TYPES.items():
        if kind not in _OTHERS:
            node = _WRITERS[event.source]
            process = SUPERVISOR if event.source == "supervisor" else node
            usual = {name: _usual(name, field) for name, field in event.fields.items()}
            for name in (*usual, "another"):
                yield process, JournalEntry(0, node, kind, replaced(usual, name, value))


def replaced(fields: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
    """Return the fields with another value of one of them."""
    others = {key: one for key, one in fields.items() if key != name}
    return others if value is MISSING else {**others, name: value}


def add_entries(run: Path, added: Iterable[tuple[str, JournalEntry]]) -> None:
    """Add entries in the middle of journals.

    Numbers and checksums stay valid.
    """
    of_process: dict[str, list[JournalEntry]] = collections.defaultdict(list)
    for process, entry in added:
        of_process[process].append(entry)
    for process, new in of_process.items():
        path = run / "journal" / f"{process}{SUFFIX}"
        known = list(read_journal(path))
        middle = len(known) // 2
        at = known[middle - 1].at_millis
        write_entries(path, [*known[:middle], *(JournalEntry(at, *_rest(one)) for one in new), *known[middle:]])


def write_entries(path: Path, entries: Iterable[JournalEntry]) -> None:
    """Write a journal with any values, numbered and closed with its checksum."""
    raw, crc = b"", 0
    for seq, entry in enumerate(entries, 1):
        is_seal = entry.kind in (CLOSED, "cluster_stopped") and type(entry.fields.get("crc")) is int
        fields = {**entry.fields, "crc": crc} if is_seal else entry.fields
        columns = {"v": 4, "at": entry.at_millis, "node": entry.node, "kind": entry.kind}
        packed = msgpack.packb({**columns, "fields": fields, "seq": seq})
        crc = zlib.crc32(packed, 0 if entry.kind == OPENED else crc)
        raw += packed
    path.write_bytes(raw)


def _usual(name: str, field: Field) -> Any:
    return _NAMED.get(name, "orders@broker-a:0" if name == "queue" and field.type == "text" else _USUAL[field.type])


def _rest(entry: JournalEntry) -> tuple[str, str, Mapping[str, Any]]:
    return entry.node, entry.kind, entry.fields
