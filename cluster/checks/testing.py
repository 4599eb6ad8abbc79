"""A run for tests of the checks, built in steps, clean until a violation is added."""

import collections
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from rmqlab.cluster.checks import judge
from rmqlab.cluster.checks.copies import Copy, NodeStore, Stores, gather
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.history import History, read_history
from rmqlab.runtime.journals.journalentry import CLOSED, JournalEntry, opened
from rmqlab.runtime.journals.journalfiles import SUPERVISOR, journal_path
from rmqlab.runtime.journals.journalwriter import JournalWriter
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.verdict.conditions import read_conditions
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.outcomes import STORED

SOME_DAY = 1_795_200_000_000
RECORD_BYTES = 200
ADDRESSES = {
    "namesrv-1": "127.77.1.1:9876",
    "namesrv-2": "127.77.1.2:9876",
    "broker-a": "127.77.1.20:10911",
    "broker-a-s": "127.77.1.21:10911",
    "broker-b": "127.77.1.22:10911",
    "broker-b-s": "127.77.1.23:10911",
    "broker-c": "127.77.1.24:10911",
}


@attrs.define
class MadeUpRun:
    """Journal entries and logs. Every step takes 10 ms."""

    nodes: tuple[str, ...] = ("namesrv-1", "broker-a", "broker-a-s")
    now: int = SOME_DAY
    entries: list[JournalEntry] = attrs.field(factory=list)
    logs: dict[str, list[Copy]] = attrs.field(factory=dict)
    unread: set[str] = attrs.field(factory=set)
    """Nodes with an unreadable store."""
    offset_files: dict[str, dict[str, dict[int, int]]] = attrs.field(factory=dict)
    """consumerOffset.json by node: offsets by `topic@group` and queue id."""
    settings: dict[str, dict[str, Any] | None] = attrs.field(factory=dict)
    """config.toml by node; None for one that cannot be read."""
    _ends: collections.Counter[Queue] = attrs.field(factory=collections.Counter)
    """The end of each queue."""

    def __attrs_post_init__(self) -> None:
        for node in self.nodes:
            if node.startswith("broker"):
                self.logs[node] = []
            self.ready(node)

    # ---- events ----------------------------------------------------------------------------------

    def add(self, node: str, kind: str, **fields: Any) -> JournalEntry:
        """Add an entry, 10 ms after the one before."""
        self.now += 10
        entry = JournalEntry(self.now, node, kind, fields, seq=len(self.entries) + 1)
        self.entries.append(entry)
        return entry

    def change_last(self, **fields: Any) -> None:
        """Change fields of the last event."""
        entry = self.entries[-1]
        self.entries[-1] = attrs.evolve(entry, fields={**entry.fields, **fields})

    def wait(self, seconds: float) -> None:
        """Advance the time."""
        self.now += round(seconds * 1000)

    def ready(self, node: str, broker_id: int | None = None) -> None:
        """Start a node; a broker is in every route then, with its planned id or another."""
        if not node.startswith("broker"):
            self.add(node, "node_ready", address=ADDRESSES[node])
            return
        named = self._named(node) | ({} if broker_id is None else {"broker_id": broker_id})
        for nameserver in self.nodes:
            if nameserver.startswith("namesrv"):
                self.add(nameserver, "broker_registered", **named)
                registered = {"nameserver": ADDRESSES[nameserver]}
                self.entries.append(JournalEntry(self.now, node, "registered", registered))
        self.add(node, "node_ready", **named)

    def end(self, node: str, command: str = "kill", kind: str = "node_killed") -> int:
        """End or freeze a node; return the time of the command."""
        at = self.add(node, "command", command=command).at_millis
        self.add(node, kind)
        return at

    def drop(self, nameserver: str, node: str, kind: str = "broker_connection_lost") -> int:
        """Remove a broker from a nameserver's routes; return the time."""
        return self.add(nameserver, kind, **self._named(node), reason="why").at_millis

    def send(
        self,
        number: int,
        outcome: str = "SEND_OK",
        *,
        queue_id: int = 0,
        broker: str = "broker-a",
        at: Iterable[str] | None = None,
        topic: str = "orders",
        took: int = 5,
        **fields: Any,
    ) -> str:
        """Add a send that took `took` ms.

        `at`: nodes that store it; by default all of the broker name if the outcome says so.
        """
        message_id = f"ID{number:06}"
        queue = Queue(topic, broker, queue_id)
        nodes = self.members(broker) if outcome in STORED else ()
        offset = self.store(message_id, queue, nodes if at is None else at) if outcome in STORED or at else None
        stored = {"broker": broker, "queue": queue_id, "offset": offset} if outcome in STORED else {}
        common = {"number": number, "message_id": message_id, "topic": topic, "outcome": outcome}
        self.add("produce-1", "sent", **common, **stored, began_at=self.now + 10 - took, **fields)
        return message_id

    def fail(
        self, number: int, broker: str = "broker-a", *, topic: str = "orders", took: int = 5, **fields: Any
    ) -> None:
        """Add a failed attempt."""
        place = {"topic": topic, "broker": broker}
        self.add("produce-1", "attempt_failed", message_id=f"ID{number:06}", **place, took=took, **fields)

    def store(self, message_id: str, queue: Queue, nodes: Iterable[str]) -> int:
        """Append a record to nodes' logs; return its queue offset."""
        offset = self._ends[queue]
        self._ends[queue] += 1
        for node in nodes:
            log = self.logs[node]
            at = log[-1].log_offset + RECORD_BYTES if log else 0
            log.append(
                Copy(
                    node=node,
                    message_id=message_id,
                    queue=queue,
                    offset=offset,
                    log_offset=at,
                    stored_at=self.now,
                )
            )
        return offset

    def deliver(
        self,
        number: int,
        offset: int,
        node: str = "consume-1",
        *,
        group: str = "shop",
        queue_id: int = 0,
        broker: str = "broker-a",
        times: int = 0,
    ) -> None:
        """Add a delivery."""
        self.add(
            node,
            "delivered",
            message_id=f"ID{number:06}",
            topic="orders",
            group=group,
            broker=broker,
            queue=queue_id,
            offset=offset,
            reconsume_times=times,
        )

    def commit(
        self,
        offset: int,
        node: str = "consume-1",
        *,
        group: str = "shop",
        queue_id: int = 0,
        broker: str = "broker-a",
        **fields: Any,
    ) -> None:
        """Add a commit."""
        place = {"topic": "orders", "broker": broker, "queue": queue_id}
        self.add(node, "committed", group=group, **place, offset=offset, **fields)

    # ---- results ---------------------------------------------------------------------------------

    def members(self, broker: str) -> list[str]:
        """Return the nodes of a broker name."""
        return [node for node in self.logs if broker_of(node)[0] == broker]

    def history(self) -> History:
        return read_history(self.entries)

    def stores(self) -> Stores:
        nodes = [
            NodeStore(node=node, broker=broker_of(node)[0], copies=tuple(copies))
            for node, copies in self.logs.items()
            if node not in self.unread
        ]
        gathered = gather(nodes, dict.fromkeys(self.unread, "its store was not given"))
        return attrs.evolve(gathered, offset_files=self.offset_files, settings=self.settings)

    def judge(self) -> Judgement:
        return judge(self.history(), self.stores(), read_conditions(self.entries, None))

    def _named(self, node: str) -> dict[str, Any]:
        name, broker_id = broker_of(node)
        return {"broker_name": name, "broker_id": broker_id, "address": ADDRESSES[node]}


def write_journals(entries: Iterable[JournalEntry], directory: Path, run: str = "") -> None:
    """Write journals as the processes of a cluster do.

    Events of the supervisor are in its own file, all others in the file of their node. `run` is the id that each file
    begins with; without one they are as before version 4.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files: dict[str, list[JournalEntry]] = {SUPERVISOR: []}
    closing: dict[str, JournalEntry | None] = {}
    for entry in entries:
        own = files.setdefault(entry.node or SUPERVISOR, [])
        if EVENT_TYPES[entry.kind].source == "supervisor":
            files[SUPERVISOR].append(entry)
            is_end = entry.kind == "node_stopped"
            closing[entry.node] = JournalEntry(entry.at_millis, entry.node, CLOSED, {}) if is_end else None
        else:
            own.append(entry)
    for process, own in files.items():
        writer = JournalWriter(journal_path(directory, process))
        if run and own:
            writer.begin(opened(own[0].at_millis, "" if process == SUPERVISOR else process, run))
        for entry in own:
            writer.append(entry)
        writer.close(closing.get(process))


def with_offset(entry: JournalEntry, offset: int) -> JournalEntry:
    """Return an entry with another queue offset."""
    return attrs.evolve(entry, fields={**entry.fields, "offset": offset})


def broker_of(node: str) -> tuple[str, int]:
    """Return the broker name and broker id of a node."""
    return node.removesuffix("-s"), int(node.endswith("-s"))
