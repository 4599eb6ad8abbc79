"""One entry of a journal, and its bytes.

A journal is a file of msgpack maps, one per event, in the order in which they happened:

    {"v": 4, "at": milliseconds of the cluster's clock, "node": name, "kind": text,
     "fields": {name: value}, "seq": number}

`seq` counts the entries of a file from 1, so that removed, repeated or moved entries can be detected (since version 3).
A process writes `journal_opened` first, with the id of its run: a file of another run can be detected (since version
4). A process that stops regularly writes `journal_closed` last, so that a truncated file can be detected. It has the
CRC-32 of all bytes since `journal_opened`: changed entries can be detected.
`rmqlab.runtime.journals.schema` lists all kinds and their fields.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import msgpack

from rmqlab.runtime.bounds import EVENT, bounded_fields, cut_text
from rmqlab.runtime.journals.journalwaste import LONGEST_ENTRY, MOST_ITEMS
from rmqlab.runtime.journals.schema import LATEST, validate

VERSION = 4

MESSAGE_KINDS = frozenset({"sent", "delivered", "attempt_failed", "committed", "log_sampled"})
"""Events of single messages, and samples: there may be thousands a second. They are written to the journal only, not
sent to the supervisor."""

OPENED = "journal_opened"
"""Kind of the first entry that each start of a process writes. Its field `run` is the id of the run."""

CLOSED = "journal_closed"
"""Kind of the last entry of a process that stopped regularly."""

SEALS = frozenset({CLOSED, "cluster_stopped"})
"""Kinds of last entries. Their field `crc` is the CRC-32 of all entries before them since `journal_opened`."""

BROKEN = (ValueError, KeyError, TypeError, RecursionError, msgpack.UnpackException)
"""Raised by `whole_entries` for bytes that are no entry."""


@attrs.frozen
class JournalEntry:
    """One event. Milliseconds are those of the cluster's clock."""

    at_millis: int
    node: str
    kind: str
    fields: Mapping[str, Any]
    seq: int = attrs.field(default=0, eq=False)
    """Place in its file, from 1 on; 0 in a journal of version 1 or 2, and before it is written."""

    def as_json(self) -> dict[str, Any]:
        """Return a flat map. A column takes precedence over a field of the same name."""
        columns = {"at": self.at_millis, "node": self.node, "kind": self.kind}
        return {**columns, **self.fields, **columns}


def pack_entry(entry: JournalEntry, seq: int = 0) -> bytes:
    """Return an entry as a file holds it at its place `seq`.

    Values that msgpack does not support are written as text.

    Fields are bounded (`rmqlab.runtime.bounds.EVENT`): peers choose some of them, and a reader must be able to hold an
    entry.
    """
    packed: bytes = msgpack.packb(
        {
            "v": VERSION,
            "at": entry.at_millis,
            "node": cut_text(entry.node, EVENT.text),
            "kind": cut_text(entry.kind, EVENT.text),
            "fields": bounded_fields(entry.fields),
            "seq": seq,
        }
    )
    return packed


def opened(at_millis: int, node: str, run: str) -> JournalEntry:
    """Return the entry with which a process of this run begins to write."""
    return JournalEntry(at_millis, node, OPENED, {"run": run})


def new_unpacker(most_items: int = MOST_ITEMS) -> Any:
    """Return a parser of entries, which holds the longest one."""
    return msgpack.Unpacker(
        strict_map_key=False, max_buffer_size=LONGEST_ENTRY, max_array_len=most_items, max_map_len=most_items
    )


def whole_entries(unpacker: Any) -> Iterator[JournalEntry]:
    """Yield the whole entries that an unpacker holds.

    Raises one of `BROKEN` for bytes that are not an entry. Of an unknown version, the known fields are read.
    """
    for entry in unpacker:
        at_millis, node, kind, fields = entry["at"], entry["node"], entry["kind"], entry["fields"]
        is_entry = type(at_millis) is int and isinstance(node, str) and isinstance(kind, str)
        if not is_entry or not isinstance(fields, dict) or not 0 <= at_millis <= LATEST:
            raise TypeError("not an entry of a journal")
        if invalid := validate(kind, fields):
            raise TypeError(f"{kind} with an invalid value of {invalid}")
        seq = entry.get("seq")
        yield JournalEntry(at_millis, node, kind, fields, seq if isinstance(seq, int) else 0)
