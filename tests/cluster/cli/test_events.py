"""Events of stopped clusters, read from their journals."""

from pathlib import Path

from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.runtime.journals.journalentry import JournalEntry, pack_entry
from rmqlab.runtime.journals.journalfiles import SUPERVISOR, journal_path


def write(directory: Path, process: str, *nodes: str) -> None:
    """Write a journal in which these nodes get ready."""
    directory.mkdir(exist_ok=True)
    entries = (JournalEntry(number, node, "node_ready", {}) for number, node in enumerate(nodes))
    journal_path(directory, process).write_bytes(b"".join(map(pack_entry, entries)))


def test_missing_journals_are_named(tmp_path: Path) -> None:
    write(tmp_path / "journal", SUPERVISOR, "broker-a", "broker-b")
    write(tmp_path / "journal", "broker-b", "broker-b")
    shown = CliRunner().invoke(app, ["events", "-n", str(tmp_path)])
    assert (shown.exit_code, len(shown.stdout.splitlines())) == (0, 3)
    assert shown.stderr == "rmqlab: journal/broker-a.msgpack is missing: its events are not shown\n"
    journal_path(tmp_path / "journal", "broker-a").mkdir()  # as one without permission: not a file to be read
    shown = CliRunner().invoke(app, ["events", "-n", str(tmp_path)])
    assert shown.stderr == "rmqlab: journal/broker-a.msgpack cannot be read: its events are not shown\n"
    journal_path(tmp_path / "journal", SUPERVISOR).unlink()
    shown = CliRunner().invoke(app, ["events", "-n", str(tmp_path), "--json"])
    assert "journal/cluster.msgpack is missing" in shown.stderr
