"""One request of the corpus, played at one cluster.

Their outcomes are normalised for comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from tests.interop.differential.normal import Names, read_json, records
from tests.interop.differential.wire import (
    JSON,
    ONEWAY,
    ROCKETMQ,
    Closed,
    Command,
    Connection,
    Fields,
    binary_header,
    frame,
    json_header,
)
from tests.interop.waiting import wait_until

PATIENCE = 20.0
"""Seconds for an expected reply."""
SILENCE = 0.15
"""Seconds without a reply, after replies to later requests, that count as silence if silence is expected."""
_PROBES = 3
_SHOWN = 500  # characters of a body that differs
_RECORD_BODIES = {11, 12, 33, 361}


@attrs.frozen
class Case:
    """A request. Without `raw` it is a command in the codec given."""

    name: str
    to: str
    """Key of the site's addresses: namesrv, master, slave, vip."""
    code: int = 0
    fields: "Fields | Callable[[Site], Fields]" = None
    body: "bytes | Callable[[Site], bytes]" = b""
    codec: int = JSON
    members: Mapping[str, Any] = attrs.field(factory=dict)
    """Of the header, beside code, opaque and ext fields."""
    raw: Callable[[int], bytes] | None = None
    """Makes the bytes themselves, for an opaque that an answer to them would have."""
    opaque: int | None = None
    """Of the reply, if it is not the request's."""
    is_silent: bool = False
    """No reply is expected."""
    show: Callable[[Any], Any] | None = None
    """What of a body that is JSON is compared; all of it by default."""
    settles: bool = False
    """It waits until the server's queues have what was sent: those of 4.9 follow its log a little later."""
    gone: tuple[str, ...] = ()
    """No request: the connection is closed, and the nameserver drops the brokers of these addresses."""
    collects: bool = False
    """No request: the outcome is what the server has asked on this connection since the last such case."""

    @property
    def is_oneway(self) -> bool:
        return bool(self.members.get("flag", 0) & ONEWAY)


MASTER_DIES = Case("the master dies", "master")
"""No request: what follows is asked when the slave has all of the master's log and metadata, and the master is dead."""


@attrs.frozen
class Outcome:
    """Outcome of a case: `answered`, `silent` or `closed`, with a normalised response.

    The cluster's own values have names.
    """

    end: str
    code: int | None = None
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    body: Any = b""
    header: tuple[object, ...] = ()
    """Codec, flag and language."""


class Site:
    """A cluster during the corpus: connections, and responses by the cases' names."""

    def __init__(self, addresses: Mapping[str, str], names: Names) -> None:
        self.addresses = addresses
        self.names = names
        self.answers: dict[str, Command] = {}
        self._connections: dict[str, Connection] = {}
        self._opaque = 1000

    def connection(self, to: str) -> Connection:
        if to not in self._connections:
            self._connections[to] = Connection(self.addresses[to.partition(" ")[0]])
        return self._connections[to]

    def drop(self, to: str) -> None:
        self._connections.pop(to).close()

    def close(self) -> None:
        for to in list(self._connections):
            self.drop(to)

    def next_opaque(self) -> int:
        self._opaque += 1
        return self._opaque

    def play(self, case: Case) -> Outcome:
        opaque = self.next_opaque()
        connection = self.connection(case.to)
        if case.collects:
            return self._collected(case, connection)
        if case.gone:
            self.drop(case.to)
            wait_until(lambda: not self._listed(case.gone), f"the nameserver drops {case.gone}")
            return Outcome("closed")
        if case.settles:
            self._wait_dispatched(connection)
        try:
            connection.send(self._bytes(case, opaque))
            awaited = opaque if case.opaque is None else case.opaque
            if case.is_silent or case.is_oneway:
                self._probe(case, connection)
                answer = connection.wait(awaited, SILENCE)
            else:
                answer = connection.wait(awaited, PATIENCE)
        except Closed:
            self.drop(case.to)
            return Outcome("closed")
        if answer is None:
            return Outcome("silent")
        self.answers[case.name] = answer
        return self._outcome(case, answer, connection)

    def _collected(self, case: Case, connection: Connection) -> Outcome:
        """The server's own requests, in any order: its threads send them."""
        self._probe(case, connection)
        connection.wait(self.next_opaque(), SILENCE)
        asked, connection.asked = connection.asked, []
        return Outcome("asked", body=sorted(f"{one.code} {sorted((one.fields or {}).items())}" for one in asked))

    def _listed(self, addresses: Sequence[str]) -> bool:
        connection, opaque = self.connection("namesrv"), self.next_opaque()
        connection.send(frame(JSON, json_header(106, opaque, None)))
        answer = connection.wait(opaque, PATIENCE)
        return answer is None or any(f'"{address}"'.encode() in answer.body for address in addresses)

    def _wait_dispatched(self, connection: Connection) -> None:
        def is_dispatched() -> bool:
            opaque = self.next_opaque()
            connection.send(frame(JSON, json_header(28, opaque, None)))
            answer = connection.wait(opaque, PATIENCE)
            return answer is not None and read_json(answer.body)["table"]["dispatchBehindBytes"] == "0"

        wait_until(is_dispatched, "the queues follow the log")

    def _bytes(self, case: Case, opaque: int) -> bytes:
        if case.raw is not None:
            return case.raw(opaque)
        fields = case.fields(self) if callable(case.fields) else case.fields
        body = case.body(self) if callable(case.body) else case.body
        make = json_header if case.codec == JSON else binary_header
        return frame(case.codec, make(case.code, opaque, fields, **case.members), body)

    def _probe(self, case: Case, connection: Connection) -> None:
        """Send requests that always get a response: earlier responses precede theirs."""
        code, fields = (105, {"topic": "NoSuchTopic"}) if case.to.startswith("namesrv") else (9999, None)
        for _ in range(_PROBES):
            opaque = self.next_opaque()
            connection.send(frame(JSON, json_header(code, opaque, fields)))
            if connection.wait(opaque, PATIENCE) is None:
                raise TimeoutError(f"{case.name}: the probe after it was not answered")

    def _outcome(self, case: Case, answer: Command, connection: Connection) -> Outcome:
        names = attrs.evolve(self.names, texts={connection.local: "PEER", **self.names.texts})
        fields = None if answer.fields is None else {key: names.text(value) for key, value in answer.fields.items()}
        return Outcome(
            "answered",
            answer.code,
            None if answer.remark is None else names.text(answer.remark),
            fields,
            body_of(case, answer, names),
            ("ROCKETMQ" if answer.codec == ROCKETMQ else "JSON", answer.flag, answer.language),
        )


def body_of(case: Case, answer: Command, names: Names) -> Any:
    """The parsed body: records, JSON, or bytes."""
    if case.code in _RECORD_BODIES and answer.body:
        return records(answer.body, names)
    if answer.body[:1] in (b"{", b"["):
        value = read_json(answer.body)
        return names.plain(case.show(value) if case.show is not None else value)
    if b"=" in answer.body and answer.body[:1].isalpha():
        return sorted(line.partition("=")[0] for line in answer.body.decode().splitlines())
    return answer.body


def differences(real: Outcome, ours: Outcome) -> list[str]:
    """What of our outcome is not the real one's, in words.

    Remarks of failures are for people, and each system has its own words; that there is one must agree, and the
    remark of a success.
    """
    found = []
    if real.end != ours.end:
        return [f"{real.end} {_brief(real)}, ours {ours.end} {_brief(ours)}"]
    if real.code != ours.code:
        return [f"code {_brief(real)}, ours {_brief(ours)}"]
    if (real.remark is None) != (ours.remark is None) or (real.code == 0 and real.remark != ours.remark):
        found.append(f"remark {real.remark!r}, ours {ours.remark!r}")
    if real.header != ours.header:
        found.append(f"header {real.header}, ours {ours.header}")
    if real.fields != ours.fields:
        found.append(f"fields {real.fields}, ours {ours.fields}")
    found += _different("body", real.body, ours.body)
    return found


def _different(where: str, real: Any, ours: Any) -> list[str]:
    """The places where two bodies differ."""
    if real == ours:
        return []
    if attrs.has(type(real)) and type(real) is type(ours):
        real, ours = attrs.asdict(real), attrs.asdict(ours)
    if isinstance(real, dict) and isinstance(ours, dict):
        keys = [*real, *(key for key in ours if key not in real)]
        missing = "(nothing)"
        parts = [_different(f"{where}.{key}", real.get(key, missing), ours.get(key, missing)) for key in keys]
        return [line for part in parts for line in part]
    if isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        pairs = enumerate(zip(real, ours, strict=True))
        return [line for at, (one, other) in pairs for line in _different(f"{where}[{at}]", one, other)]
    return [f"{where} {_cut(real)}, ours {_cut(ours)}"]


def _brief(outcome: Outcome) -> str:
    return "" if outcome.code is None else f"{outcome.code} ({(outcome.remark or '')[:160]})"


def _cut(body: object) -> str:
    text = repr(body)
    return text if len(text) < _SHOWN else f"{text[:_SHOWN]}..."


Corpus = Sequence[Case]


def stored_at(site: Site, name: str) -> int:
    """Commit log offset of a message that was sent, by the send's name."""
    return int((site.answers[name].fields or {})["msgId"][16:32], 16)


def queue_offset_of(site: Site, name: str) -> int:
    """Queue offset of a message that was sent, by the send's name."""
    return int((site.answers[name].fields or {})["queueOffset"])
