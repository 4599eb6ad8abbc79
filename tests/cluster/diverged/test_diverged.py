"""Messages that a slave cut from its log: listed, exported, and sent again."""

import base64
import json
import pathlib
import re
import zlib
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.cli.output.event_lines import clock_text
from rmqlab.cluster.diverged.listing import DivergedMessage, list_diverged
from rmqlab.cluster.diverged.resend import Resent, as_sent, reasons_to_skip
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, Record
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, place
from rmqlab.remoting.message import RecordError, StoredMessage
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalwriter import JournalWriter
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.diverged import CutDamage
from rmqlab.store.testing import ManualClock, new_message, small_config
from rmqlab.store.truncate import save_from, truncate

Run = Callable[..., Result]
SPEC = ClusterSpec(name="x")


@pytest.fixture
def directory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> ClusterDirectory:
    """A stopped cluster whose slave has cut k-2 to k-4; its master has another k-3."""
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    made = ClusterDirectory.named("x")
    made.create()
    made.write_record(Record(spec=SPEC, placement=place(SPEC, Placement(subnet=9))))
    slave = MessageStore.open(small_config(made.data_dir("broker-a-s") / "store"), now_millis=ManualClock())
    offsets = [
        slave.put(new_message(b"m%d" % n, unique_key=f"k-{n}", keys=f"key-{n}")).physical_offset for n in range(5)
    ]
    save_from(slave, offsets[2])
    truncate(slave, offsets[2])
    slave.close()
    master = MessageStore.open(small_config(made.data_dir("broker-a") / "store"), now_millis=ManualClock())
    for number in (0, 1, 3):
        master.put(new_message(b"m%d" % number, unique_key=f"k-{number}"))
    master.close()
    made.begin_journal()
    writer = JournalWriter(made.journal_path("produce-1"))
    for ids, outcome in (("k-2", "SEND_OK"), ("k-3,k-9", "indeterminate")):
        writer.append(
            JournalEntry(
                1, "produce-1", "sent", {"message_id": ids, "topic": "orders", "outcome": outcome, "began_at": 1}
            )
        )
    writer.close()
    return made


@pytest.fixture
def run(directory: ClusterDirectory) -> Run:
    del directory

    def run(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(app, ["diverged", "--name", "x", *arguments], prog_name="rmqlab")
        assert result.exit_code == status, result.output
        return result

    return run


def messages(directory: ClusterDirectory) -> dict[str, DivergedMessage]:
    record = directory.read_record()
    assert record is not None
    nodes = record.nodes()
    (slave,) = find_targets("broker-a:slave", nodes)
    return {one.message_id: one for one in list_diverged(directory, slave, nodes).messages}


def test_a_cut_message_is_listed_with_its_outcome_and_the_logs_that_have_it(directory: ClusterDirectory) -> None:
    found = messages(directory)
    assert {key: (one.outcome, one.in_logs) for key, one in found.items()} == {
        "k-2": ("SEND_OK", ()),
        "k-3": ("indeterminate", ("broker-a",)),
        "k-4": (None, ()),
    }


def test_json_and_the_exported_lines_have_the_same_messages(run: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cut.jsonl"
    document = json.loads(run("broker-a-s", "--json", "--export", str(path)).output)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one["message_id"] for one in document["messages"]] == ["k-2", "k-3", "k-4"]
    assert [base64.b64decode(line["body"]) for line in lines] == [b"m2", b"m3", b"m4"]
    assert lines[0]["properties"] == {"UNIQ_KEY": "k-2", "KEYS": "key-2"}
    assert document["damages"] == document["resent"] == []


def test_the_page_of_json_documents_has_all_members(run: Run) -> None:
    page = pathlib.Path(__file__).parents[3] / "docs" / "json.md"
    (section,) = re.findall(r"^## Diverged messages$(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    document = json.loads(run("broker-a-s", "--json").output)
    parts = [document, document["messages"][0], *(attrs.fields_dict(kind) for kind in (CutDamage, Resent))]
    assert {name for part in parts for name in part} <= set(re.findall(r"`(\w+)`", section))


def test_a_table_is_printed_and_a_file_is_never_overwritten(
    run: Run, directory: ClusterDirectory, tmp_path: pathlib.Path
) -> None:
    lines = run("broker-a:slave", "-l", "1").output.splitlines()
    cut = messages(directory)["k-2"]
    stored = [clock_text(cut.message.store_timestamp), str(cut.message.store_size)]
    assert lines[1].split() == ["k-2", "orders:0", "2", "key-2", *stored, "SEND_OK", "none"]
    assert lines[2] == "... and 2 more; --lines or --json shows them"
    path = tmp_path / "mine"
    path.write_text("mine")
    refused = run("broker-a-s", "--export", str(path), status=2).output
    assert f"--export {path}: exists already; expected the path of a new file" in refused
    assert path.read_text() == "mine"


def test_a_node_without_cuts_says_so(run: Run) -> None:
    assert run("broker-a").output == "broker-a has cut no message from its log\n"


def test_a_damaged_file_is_named_and_changes_the_exit_status(run: Run, directory: ClusterDirectory) -> None:
    (directory.data_dir("broker-a-s") / "store" / "diverged" / "x").write_text("")
    assert "damaged: x at byte 0: not a file that a slave saved" in run("broker-a-s", status=1).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["namesrv-1"], "namesrv-1 is a nameserver: only brokers have logs"),
        (["broker-b"], "no node 'broker-b' here"),
        (["broker-a", "--name", "y"], "y"),
    ],
)
def test_bad_input_is_refused(run: Run, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["diverged", "--name", "x", *arguments], prog_name="rmqlab")
    assert result.exit_code in (1, 2)
    assert message in result.output
    del run


def test_without_a_running_cluster_nothing_can_be_sent(run: Run) -> None:
    assert "cluster x is not running" in run("broker-a-s", "--resend", status=1).output


def stored(one: DivergedMessage, **changes: Any) -> DivergedMessage:
    message: StoredMessage = attrs.evolve(one.message, **changes)
    return attrs.evolve(one, message=message)


def test_a_message_is_sent_as_its_producer_sent_it(directory: ClusterDirectory) -> None:
    one = messages(directory)["k-2"]
    sent = as_sent(stored(one, flag=7, properties={**one.message.properties, "WAIT": "true", "CLUSTER": "c"}))
    assert (sent.topic, sent.body, sent.flag) == ("orders", b"m2", 7)
    assert sent.properties == {"UNIQ_KEY": "k-2", "KEYS": "key-2"}


def test_a_delayed_message_goes_to_its_topic_with_its_level(directory: ClusterDirectory) -> None:
    one = messages(directory)["k-2"]
    properties = {"UNIQ_KEY": "k-2", "DELAY": "3", "REAL_TOPIC": "timers", "REAL_QID": "1"}
    delayed = stored(one, topic="SCHEDULE_TOPIC_XXXX", properties=properties)
    sent = as_sent(delayed)
    assert (sent.topic, sent.delay_level, sent.properties) == ("timers", 3, {"UNIQ_KEY": "k-2"})
    assert delayed.obstacle == ""


@pytest.mark.parametrize("level", ["9" * 5000, "-1", "soon", ""])
def test_a_delay_level_that_no_broker_reads_is_0(directory: ClusterDirectory, level: str) -> None:
    one = stored(messages(directory)["k-2"], properties={"UNIQ_KEY": "k-2", "DELAY": level})
    assert one.as_json()["delay_level"] == as_sent(one).delay_level == 0


def test_only_the_first_of_several_with_one_unique_key_is_sent(directory: ClusterDirectory) -> None:
    """The slave cut its log twice, and saved the message twice."""
    lost, kept, other = messages(directory).values()
    keyless = stored(lost, properties={})
    half = stored(lost, topic="RMQ_SYS_TRANS_HALF_TOPIC")
    reasons = list(reasons_to_skip([half, lost, lost, kept, other, keyless, keyless], even_if_stored=False))
    assert reasons == [
        half.obstacle, "", "an earlier message has the same unique key", "the log of broker-a has it", "", "", "",
    ]  # fmt: skip
    assert list(reasons_to_skip([kept], even_if_stored=True)) == [""]


def test_a_compressed_body_is_decompressed_and_an_invalid_one_refused(directory: ClusterDirectory) -> None:
    one = messages(directory)["k-2"]
    assert as_sent(stored(one, sys_flag=1, body=zlib.compress(b"long"))).body == b"long"
    with pytest.raises(RecordError):
        as_sent(stored(one, sys_flag=1, body=b"not zlib"))


@pytest.mark.parametrize(
    ("topic", "reason"),
    [("RMQ_SYS_TRANS_HALF_TOPIC", "is a system topic"), ("%RETRY%shop", "is the topic of a consumer group")],
)
def test_messages_of_brokers_and_groups_are_not_sent(directory: ClusterDirectory, topic: str, reason: str) -> None:
    assert reason in stored(messages(directory)["k-2"], topic=topic).obstacle
