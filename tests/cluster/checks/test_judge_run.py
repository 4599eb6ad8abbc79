"""The entry point: real files in, findings out.

Names that are regular; JSON; what is missing.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.checks import judge_directory, judge_run
from rmqlab.cluster.checks.testing import MadeUpRun, write_journals
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.findings import EVIDENCE_LIMIT
from rmqlab.verdict.metrics import UnknownMetricError, find_metric

Write = Callable[[MadeUpRun], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a made-up run: journals, and stores of its logs."""

    def writer(run: MadeUpRun) -> Path:
        directory = tmp_path / "run"
        write_journals(run.entries, directory / "journal")
        for node, copies in run.logs.items():
            config = small_config(directory / node / "store")
            store = MessageStore.open(config, now_millis=ManualClock(now=run.now, step=1))
            for copy in copies:
                topic, queue_id = copy.queue.topic, copy.queue.queue_id
                host = ("127.77.1.20", 10911)  # broker-a
                store.put(new_message(topic=topic, queue_id=queue_id, unique_key=copy.message_id, store_host=host))
            store.close()
        return directory

    return writer


def eventful_run() -> MadeUpRun:
    run = MadeUpRun()
    for number in range(10):
        run.send(number, queue_id=number % 2)
        run.deliver(number, offset=number // 2, queue_id=number % 2)
    run.send(10, at=())
    run.send(11, at=["broker-a"])
    killed = run.end("broker-a")
    run.drop("namesrv-1", "broker-a")
    run.fail(12)
    run.send(12, "refused")
    assert killed
    return run


def test_the_empty_directory_of_a_node_that_never_began_is_no_missing_store(write: Write) -> None:
    directory = write(eventful_run())
    before = judge_directory(directory)
    (directory / "broker-z" / "store").mkdir(parents=True)
    assert judge_directory(directory).by_metric == before.by_metric


def test_files_are_judged_as_the_values_they_were_made_of(write: Write) -> None:
    run = eventful_run()
    directory = write(run)
    by_file, by_value = judge_directory(directory), run.judge()
    only_by_file = {"divergence broker-a-s", "behind broker-a-s", "ahead broker-a-s"}
    only_by_file |= {"dangling broker-a", "dangling broker-a-s", "place_disagreement"}
    only_by_file |= {"topics_missing broker-a", "topics_missing broker-a-s", "groups_missing broker-a"}
    for finding in by_value:
        assert (by_file[finding.metric].value == finding.value) is (finding.metric not in only_by_file), finding.metric
    assert by_file.by_metric.keys() == by_value.by_metric.keys()
    assert by_file["lost.SEND_OK"].message_ids == ("ID000010",)
    assert by_file["missing broker-a-s"].message_ids == ("ID000010", "ID000011")


def test_every_finding_is_named_and_measured_as_the_table_says() -> None:
    for finding in eventful_run().judge():
        assert find_metric(finding.metric, METRICS).unit == finding.unit


def test_no_name_is_in_the_table_twice() -> None:
    assert len({metric.title for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("losst", "did you mean lost"),
        ("xyz", "metrics: ahead, behind, clock_disagreement, content_disagreement, corrupt, "),
        ("lost broker-a", "expected lost"),
        ("write_unavailable", "such as write_unavailable broker-a"),
    ],
)
def test_a_misspelt_metric_is_reported_with_similar_names(metric: str, text: str) -> None:
    with pytest.raises(UnknownMetricError, match=text):
        eventful_run().judge()[metric]


def test_a_target_absent_from_the_run_is_unknown_and_not_an_error() -> None:
    finding = eventful_run().judge()["detection namesrv-9"]
    assert finding.value is None
    assert finding.missing == "it was not measured for namesrv-9, but for namesrv-1"


def test_a_store_that_is_not_there_is_unread_unless_it_was_wiped(tmp_path: Path) -> None:
    run = eventful_run()
    stores = {"broker-a": tmp_path / "none", "broker-a-s": tmp_path / "none"}
    finding = judge_run(run.entries, stores)["lost"]
    assert finding.value is None
    run.add("broker-a", "store_wiped", files=3)
    run.add("broker-a-s", "store_wiped", files=3)
    assert judge_run(run.entries, stores)["lost"].value == 12
    assert judge_run(run.entries, {"broker-a": tmp_path / "none"})["lost"].value == 12


def test_a_node_that_started_again_after_its_store_was_wiped_has_a_store_to_be_read(tmp_path: Path) -> None:
    run = eventful_run()
    stores = {"broker-a": tmp_path / "none", "broker-a-s": tmp_path / "none"}
    for node in stores:
        run.add(node, "store_wiped", files=3)
    run.ready("broker-a")
    finding = judge_run(run.entries, stores)["lost"]
    assert finding.value is None
    assert "broker-a: no store in" in finding.missing
    assert "broker-a-s" not in finding.missing


def test_findings_are_plain_json_with_the_entries_around_them() -> None:
    document: dict[str, Any] = json.loads(json.dumps(eventful_run().judge().as_json()))
    lost = document["lost.SEND_OK"]
    assert (lost["value"], lost["unit"], lost["message_ids"]) == (1, "messages", ["ID000010"])
    assert "sent" in [entry["kind"] for entry in lost["evidence"][0]["entries"]]
    assert document["route_disagreement"]["value"] is None


def test_evidence_is_limited_and_the_count_is_not() -> None:
    run = MadeUpRun()
    for number in range(EVIDENCE_LIMIT + 50):
        run.send(number, at=())
    finding = run.judge()["lost"]
    assert finding.value == len(finding.message_ids) == EVIDENCE_LIMIT + 50
    assert len(finding.evidence) == EVIDENCE_LIMIT


def test_an_empty_journal_judges_to_nothing_known() -> None:
    assert not any(finding.value for finding in judge_run([], {}))


def check(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments)], prog_name="rmqlab")


def test_the_command_prints_a_table_evidence_and_json(write: Write) -> None:
    directory = write(eventful_run())
    table = check(directory)
    assert table.exit_code == 1
    assert "violated: lost: 1 message. An acknowledged message must be in some store." in table.stdout
    assert "warning: the journal does not name the run's role and profile" in table.stdout
    assert "lost.SEND_OK" in table.stdout
    assert "1 message " in table.stdout
    assert "orders@broker-a:0" not in table.stdout
    assert "orders@broker-a:0" in check(directory, "--all").stdout
    shown = check(directory, "-m", "lost.SEND_OK").stdout
    assert "SEND_OK from orders@broker-a:0 offset 5" in shown
    assert "ID000010" in shown
    document = json.loads(check(directory, "-m", "lost", "--json").stdout)
    assert (document["verdict"], list(document["findings"])) == ("violated", ["lost"])
    assert document["findings"]["lost"]["value"] == 1
    assert "lost.SEND_OK" in check("--metrics").stdout


def test_the_command_reports_invalid_input_in_one_line(write: Write, tmp_path: Path) -> None:
    directory = write(eventful_run())
    for arguments, status, text in (
        ((directory, "-m", "losst"), 2, "did you mean lost"),
        ((tmp_path / "none",), 2, "there is no directory"),
        (("no-such-cluster",), 2, "no cluster and no scenario"),
        (("--metrics", "lost"), 2, "to show one metric of a run: rmqlab check RUN --metric lost"),
    ):
        done = check(*arguments)
        assert (done.exit_code, done.stdout) == (status, "")
        assert text in done.stderr
        assert done.stderr.count("\n") == 1


def test_metrics_as_json() -> None:
    """Issue 14.9: `--json` is heeded with `--metrics`, too."""
    result = CliRunner().invoke(app, ["check", "--metrics", "--json"])
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [row["metric"] for row in rows] == [metric.title for metric in METRICS]


def test_the_name_option_replaces_the_argument(write: Write) -> None:
    """Issue 14.3: `--name` names the run, as in other commands.

    Two different names are an error.
    """
    run = MadeUpRun()
    run.send(1, at=["broker-a", "broker-a-s"])
    directory = str(write(run))
    by_name = CliRunner().invoke(app, ["check", "--name", directory, "--json"])
    by_argument = CliRunner().invoke(app, ["check", directory, "--json"])
    assert by_name.exit_code == by_argument.exit_code == 0
    assert json.loads(by_name.stdout) == json.loads(by_argument.stdout)
    assert CliRunner().invoke(app, ["check", "other", "--name", directory]).exit_code == 2
