"""Hostile names in all reading commands: shown, without effect on terminals."""

import io
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.checks.view import render_evidence, render_findings
from rmqlab.cluster.cli.live.keys import Selection
from rmqlab.cluster.cli.live.view import render_live
from rmqlab.cluster.cli.output.event_lines import clock_text, render_event, render_log_line
from rmqlab.cluster.cli.output.logcomparison import render_comparison
from rmqlab.cluster.cli.output.screen import PlainConsole
from rmqlab.cluster.cli.output.tables import render_status
from rmqlab.cluster.demo.console import Terminal
from rmqlab.cluster.demo.narrator import Line
from rmqlab.cluster.supervisor.command import COMMANDS, CommandRequest, CommandResult, Failure, Item
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, place
from rmqlab.runtime.journals.journalentry import JournalEntry, pack_entry
from rmqlab.runtime.journals.journalwriter import JournalWriter
from rmqlab.verdict.findings import Evidence, Finding

FORGED = "FORGED 12:00:00.000  broker-a node_killed"
HOSTILE = [
    "\x1b[31m\x1b]0;owned\x07red",
    "[/oops]",
    "[bold]b[/bold]:smile:[link=x]",
    f"a\n{FORGED}",
    f"a\r{FORGED}",
    "\x9b2J\x85\u2028",
    "\u202egpj.exe\u2066",
    "\x00\x7f\b\b\b",
]


def document(name: str) -> dict[str, Any]:
    node = {
        "name": "broker-a",
        "kind": "broker",
        "group": "broker-a",
        "role": "ASYNC_MASTER",
        "broker_id": 0,
        "address": "127.77.9.20:10911",
        "ha_address": "127.77.9.20:10912",
        "pid": 7,
        "data_dir": "/x",
        "state": "ready",
        "end": name,
        "commit_log": {"min": name, "max": 7},
        "unserved": {f"{name} 77": 3, name: 1, "...": 8},
        "internal_errors": {name: 2},
    }
    slave = node | {"name": "broker-a-s", "role": "SLAVE", "broker_id": 1, "state": "crashed", "address": "y"}
    row = {"group": "broker-a", "master": "broker-a", "slave": "broker-a-s", "connected": False, "lag": 5}
    offsets = ("slaveAckOffset", "diff", "transferredByteInSecond", "transferFromWhere")
    labels = (*offsets, "inSync", "state", "verdict", "trouble")
    return {
        "name": "c",
        "namesrv_addr": name,
        "profile": name,
        "rate": 2,
        "clock_millis": 5,
        "broker_settings": {name: name},
        "internal_errors": {name: 1},
        "nodes": [node, slave],
        "masters": {"broker-a": [name]},
        "replication": [row | dict.fromkeys(labels, name)],
        "routes": {"namesrv-1": {name: {"0": name}, "broker-a": {"0": "127.77.9.20:10911"}}, "namesrv-2": None},
        "faults": [fault(name)],
    }


def fault(name: str) -> dict[str, Any]:
    return {"id": "f1", "type": "request", "target": name, "kind": "delay", "code": name, "applied_at": 1}


def event(name: str, kind: str = "client_joined") -> dict[str, Any]:
    fields = {"group": name, "error": name, "list": [name], name: name, "outcome": name, "topic": name, "broker": name}
    return {"at": 5, "node": "broker-a", "kind": kind, "number": 1, "remark": name, **fields}


def assert_safe(text: str) -> None:
    assert text.strip()
    for line in text.split("\n"):
        assert line.isprintable(), repr(line)
        assert not line.startswith("FORGED")


class FakeSupervisor:
    """Replies to every request with hostile values."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(path))
        self.listening.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            connection, _ = self.listening.accept()
            with connection:
                decoder, questions = COMMANDS.decoder(), list[Any]()
                while not questions and (data := connection.recv(65536)):
                    decoder.feed(data)
                    questions += decoder.messages()
                if not questions:
                    return
                for message in self.replies_to(questions[0]):
                    connection.sendall(COMMANDS.encode(message))

    def replies_to(self, question: CommandRequest) -> Iterator[Item | CommandResult | Failure]:
        match question.verb:
            case "status" | "wait":
                yield CommandResult(document(self.name))
            case "events":
                yield Item(event(self.name))
                yield Item(event(self.name, "sent"))
                yield Item(event(self.name, "attempt_failed"))
                yield Item(event(self.name, "delivered"))
                yield Item(event(self.name, self.name))
                yield Item({"at": 2**62, "node": self.name, "kind": "log_sampled"})
                yield CommandResult(None)
            case "faults" | "heal":
                yield CommandResult([fault(self.name)])
            case "fault":
                yield CommandResult(fault(self.name))
            case _:
                yield Failure(f"{question.verb}: {self.name}", is_usage=False)

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self.listening.getsockname())
        self.thread.join()
        self.listening.close()


@pytest.fixture(params=HOSTILE)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[ClusterDirectory]:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    directory = ClusterDirectory.named("default")
    directory.create()
    spec = ClusterSpec()
    directory.write_record(Record(spec=spec, placement=place(spec, Placement(subnet=9))))
    directory.data_dir("broker-a").mkdir()
    directory.log_path("broker-a").write_text(f"12:00 INFO {name} joined\n")
    directory.begin_journal()
    writer = JournalWriter(directory.journal_path("broker-a"))
    for kind in ("client_joined", "sent", "delivered", "committed", name):
        writer.append(
            JournalEntry(
                1000, "broker-a", kind, {k: v for k, v in event(name).items() if k not in ("at", "node", "kind")}
            )
        )
    writer.close()
    with directory.locked():
        supervisor = FakeSupervisor(directory.command_socket, name)
        yield directory
        supervisor.close()


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["events"],
        ["events", "--all"],
        ["faults"],
        ["heal", "all"],
        ["isolate", "broker-a"],
        ["watch", "--plain"],
        ["kill", "broker-a"],
        ["wipe", "broker-a"],
        ["power-loss", "broker-a"],
        ["produce"],
        ["logs", "broker-a"],
        ["check"],
        ["check", "--all"],
    ],
)
def test_a_command_shows_hostile_names_escaped(cluster: ClusterDirectory, words: list[str]) -> None:
    del cluster
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert_safe(result.output)


@pytest.mark.parametrize("words", [["status"], ["events"], ["faults"], ["wait", "ready"], ["check"], ["heal", "all"]])
def test_json_is_ascii_and_has_the_values_as_they_are(cluster: ClusterDirectory, name: str, words: list[str]) -> None:
    del cluster
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == (2 if words == ["check"] else 0)  # nothing was sent: the verdict is `unknown`
    assert result.output.isascii()
    assert_safe(result.output)
    documents = [json.loads(line) for line in result.output.splitlines()]
    if words != ["check"]:
        assert name in repr_of(documents)


def repr_of(value: Any) -> list[str]:
    """All texts in a document."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for pair in value.items() for part in pair for text in repr_of(part)]
        case list():
            return [text for part in value for text in repr_of(part)]
        case _:
            return []


def test_events_of_a_stopped_cluster_are_escaped_too(cluster: ClusterDirectory) -> None:
    cluster.command_socket.rename(cluster.path / "moved")
    try:
        assert_safe(CliRunner().invoke(app, ["events", "--all"]).output)
    finally:
        (cluster.path / "moved").rename(cluster.command_socket)


def shown(*renderables: Any) -> str:
    """Return the output of a standard rich console, with markup enabled.

    Views must not depend on our console's settings.
    """
    console = Console(file=io.StringIO(), width=200, record=True)
    for renderable in renderables:
        console.print(renderable)
    return console.export_text()


def test_views_escape_by_themselves(name: str) -> None:
    entries = (JournalEntry(1, "broker-a", name, {"group": name}),)
    piece = Evidence(text=name, message_ids=(name,), entries=entries)
    finding = Finding(
        metric=f"lost {name}", unit="messages", value=1, text=name, message_ids=(name,), evidence=(piece,)
    )
    unknown = Finding(metric=f"lost {name}", unit="messages", value=None, missing=name)
    assert_safe(shown(render_findings([finding, unknown]), render_evidence(finding), render_evidence(unknown)))
    assert_safe(shown(render_status(document(name)), render_event(event(name)), render_log_line("broker-a", name)))
    events = [event(name), event(name, name)]
    for width in (40, 80, 300):
        assert_safe(shown(render_live(document(name), Selection(message=name), events, width, 40)))
    record = {"offset": 1, "topic": name, "queue_id": 0, "queue_offset": 1, "message_id": name, "offset_message_id": ""}
    record |= {"born_millis": 2**62, "size": 7, "is_intact": True}
    stretch = {"record_count": 2, "byte_count": 5, "first": [record]}
    side = {
        "target": name,
        "directory": name,
        "min_offset": 0,
        "max_offset": 9,
        "differing": stretch,
        "beyond": stretch,
    }
    comparison = {"a": side, "b": side, "verdict": name, "reason": name, "common_to": 5, "common_from": 0}
    assert_safe(shown(*render_comparison(comparison | {"last_common": record})))


def test_the_demo_escapes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(PlainConsole()).line(Line(5, "broker-a", f"a client of {name} joined"))
    assert_safe(capsys.readouterr().out)


def test_the_console_is_a_net_under_what_a_view_forgot(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    PlainConsole().print(name.replace("\n", " "))
    out = capsys.readouterr().out
    assert_safe(out)
    assert "[/oops]" in out or "oops" not in name


def test_a_status_with_thousands_of_routes_and_codes_has_a_hundred_lines_of_each() -> None:
    status = document("x")
    status["routes"] = {"namesrv-1": {f"broker-{n:05}": {str(i): "a" * 4000 for i in range(20)} for n in range(2000)}}
    status["routes_left_out"] = {"namesrv-1": 18_000}
    status["nodes"][0]["unserved"] = {f"127.0.0.1 {n}": 1 for n in range(1000)}
    text = shown(render_status(status))
    assert "and 19900 more broker names; --json has them" in text
    assert text.count("not of 4.9") <= 100
    assert text.count("=aaa") <= 100 * 10
    assert len(text) < 200_000


@pytest.mark.parametrize("millis", [2**62, -(2**62), 0])
def test_any_number_has_a_time_of_day(millis: int) -> None:
    assert len(clock_text(millis)) == len("12:34:56.789")
    assert pack_entry(JournalEntry(millis, "", "x", {}))
