"""What `rmqlab audit` makes of its options for Spark."""

import io
import json
import pathlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import click
import pytest
from click.testing import CliRunner
from rich.text import Text

from rmqlab.pipeline import commands
from rmqlab.pipeline.audit.audit import _configure_spark
from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.report.page import NoAuditError
from rmqlab.verdict.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_settings_are_pairs_of_which_the_last_of_a_key_wins() -> None:
    pairs = ["spark.executor.memory=4g", "spark.executor.extraJavaOptions=-Da=b", "spark.executor.memory=5g"]
    assert commands._settings(pairs) == {
        "spark.executor.memory": "5g",
        "spark.executor.extraJavaOptions": "-Da=b",
    }


@pytest.mark.parametrize("pair", ["spark.executor.memory", "executor.memory=4g", "=4g"])
def test_an_invalid_spark_setting_is_rejected(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.exceptions.Exit) as caught:
        commands._settings([pair])
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err.startswith(f"rmqlab: --conf {pair}: expected KEY=VALUE with a key of Spark's")


@pytest.mark.parametrize("memory", ["lots", "0g", "-1g", "1.5g", "4gb", "4 g"])
def test_an_invalid_heap_is_rejected_before_a_jvm_starts(memory: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.exceptions.Exit) as caught:
        commands._check_memory(memory)
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err.startswith(f"rmqlab: --memory {memory}: expected a whole number with a unit")


def test_tables_that_cannot_be_written_are_an_error_before_anything_is_read(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for memory in (None, "512M", "4g", "2147483648"):
        commands._check_memory(memory)
    commands._check_folder(tmp_path / "audit")
    (tmp_path / "audit").write_text("mine")
    with pytest.raises(click.exceptions.Exit):
        commands._check_folder(tmp_path / "audit")
    assert capsys.readouterr().err.startswith(f"rmqlab: {tmp_path}/audit is not a directory: an audit writes its")
    monkeypatch.setattr("os.access", lambda *_: False)  # the user of the tests may write everywhere
    with pytest.raises(click.exceptions.Exit):
        commands._check_folder(tmp_path / "other")
    assert capsys.readouterr().err.startswith(f"rmqlab: {tmp_path} cannot be written: an audit writes its tables to")


def test_a_page_that_cannot_be_written_does_not_hide_the_verdict(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "supervisor.msgpack").touch()
    (tmp_path / "report.html").mkdir()
    document = {"findings": {}, "verdict": "holds", "why": ["well"], "warnings": []}
    summary = SimpleNamespace(as_json=lambda: document, verdict=Verdict.HOLDS, tables="there")
    monkeypatch.setattr(commands, "_judge", lambda *_: (summary, 0))
    monkeypatch.setattr("rmqlab.pipeline.report.page.write_report", _refuse)
    for options, said in (((), "holds: well"), (("--json",), json.dumps(document))):
        done = CliRunner().invoke(commands.audit, [str(tmp_path), "--report", *options])
        assert (done.exit_code, said in done.stdout) == (2, True)
        assert done.stderr == "rmqlab: no space\n"


def _refuse(*_: object) -> None:
    raise NoAuditError("no space")


def test_of_an_error_in_a_data_source_the_line_that_says_what_is_wrong_is_shown() -> None:
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed when creating a data source: Traceback (most recent call last):\n"
        "rmqlab.pipeline.options.OptionError: rmqlab-journal: there is no kind x\n\n"
        "JVM stacktrace:\norg.apache.spark.sql.AnalysisException\n SQLSTATE: 38000"
    )
    assert commands._last_line(text).endswith("OptionError: rmqlab-journal: there is no kind x")


class FakeSpark:
    """As much of a session as the settings of an audit need; it holds them."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.conf = SimpleNamespace(set=self.settings.__setitem__)
        self.sparkContext = SimpleNamespace(defaultParallelism=2)


def test_an_audit_leaves_the_settings_of_the_user_alone() -> None:
    ours, theirs = FakeSpark(), FakeSpark()
    for spark, given in ((ours, ()), (theirs, {"spark.sql.shuffle.partitions"})):
        _configure_spark(cast("SparkSession", spark), 10**6, Scale.LARGE, given=given)
    assert ours.settings.keys() - theirs.settings.keys() == {"spark.sql.shuffle.partitions"}


def test_metrics_that_are_zero_are_shown_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    finding: dict[str, object] = {"value": 0, "unit": "messages", "at_least": False, "missing": "", "evidence": []}
    findings = {
        "lost": finding,
        "expired": finding,
        "sent": {**finding, "value": 7},
        "sent a@b:0": {**finding, "value": 7},
    }
    document: dict[str, object] = {"findings": findings, "verdict": "holds", "why": ["well"], "warnings": []}
    commands._show(document, every=False)
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert rows == ["metric", "lost", "sent", "2", "holds:"]
    commands._show(document, every=True)
    assert "expired" in capsys.readouterr().out


def rows_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    says = f"{'7' * 32}: indeterminate, at broker-a, broker-a-s"
    finding: dict[str, object] = {"unit": "bytes", "at_least": False, "missing": "", "evidence": [{"says": says}]}
    findings = {"replication_lag_duration broker-a-s": {**finding, "value": 12_345_678}}
    document: dict[str, object] = {"findings": findings, "verdict": "holds", "why": ["well"], "warnings": []}
    commands._show(document, every=True)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_pipe_gets_a_line_for_each_metric(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows_of(capsys)[1] == (
        f"replication_lag_duration broker-a-s  12345678  bytes  {'7' * 32}: indeterminate, at broker-a, broker-a-s"
    )


def test_a_narrow_terminal_gets_evidence_with_whole_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands.console, "_force_terminal", True)
    monkeypatch.setattr(commands.console, "_width", 64)
    monkeypatch.setattr(commands.console, "_height", 24)
    assert rows_of(capsys)[2:5] == [
        "replication_lag_duration broker-a-s  12345678  bytes",
        f"    {'7' * 32}: indeterminate, at",
        "    broker-a, broker-a-s",
    ]


def test_lines_are_broken_between_words_in_terminals_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = Text("65 metrics are zero, unknown or of single queues: --all shows them")
    monkeypatch.setattr(commands.console, "_width", 60)
    monkeypatch.setattr(commands.console, "_height", 24)
    commands._print_line(line)
    monkeypatch.setattr(commands.console, "_force_terminal", True)
    commands._print_line(line)
    assert [row.rstrip() for row in capsys.readouterr().out.splitlines()] == [
        line.plain,
        "65 metrics are zero, unknown or of single queues: --all",
        "shows them",
    ]


def test_a_closed_pipe_is_no_exit_status_of_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(commands.console, "file", Closed())
    with pytest.raises(BrokenPipeError):
        commands.console.print("Tables: audit")
