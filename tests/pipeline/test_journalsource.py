import json
import pathlib
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = pathlib.Path(__file__).parents[2]


SENT = {"topic": "orders", "began_at": 0}
PLACE = {"topic": "orders", "group": "shop", "broker": "broker-a", "queue": 0, "offset": 0}


def entry(at: int, kind: str, **fields: Any) -> bytes:
    packed: bytes = msgpack.packb({"v": 1, "at": at, "node": "produce-1", "kind": kind, "fields": fields})
    return packed


@pytest.fixture
def run(tmp_path: pathlib.Path) -> pathlib.Path:
    """A run with two journals; the second is torn."""
    (tmp_path / "journal").mkdir()
    sent = [
        entry(1000 + n, "sent", number=n, message_id=f"{n:032X}", outcome="SEND_OK", offset=n, **SENT)
        for n in range(500)
    ]
    (tmp_path / "journal" / "produce-1.msgpack").write_bytes(b"".join(sent))
    rest = [entry(n, "delivered", number=n, queues=[1, 2], **PLACE) for n in range(10)]
    (tmp_path / "journal" / "consume-2.msgpack").write_bytes(b"".join(rest)[:-7])
    return tmp_path


@pytest.mark.parametrize("part", ["4999", "1000000"])
def test_every_event_is_read_once_however_the_files_are_cut(
    spark: "SparkSession", run: pathlib.Path, part: str
) -> None:
    frame = (
        spark.read.format("rmqlab-journal")
        .option("maxPartitionBytes", part)
        .schema("process string, at timestamp, kind string, number bigint, outcome string, place bigint")
        .load(str(run))
    )
    sent = frame.filter("kind = 'sent'").orderBy("number").collect()
    assert [row.number for row in sent] == list(range(500))
    assert {(row.process, row.outcome) for row in sent} == {("produce-1", "SEND_OK")}
    assert sent[1].at.timestamp() == pytest.approx(1.001)
    assert frame.filter("kind = 'delivered'").count() == 9


def test_a_torn_end_is_a_row(spark: "SparkSession", run: pathlib.Path) -> None:
    (torn,) = spark.read.format("rmqlab-journal").load(str(run)).filter("kind = 'journal_torn'").collect()
    last = entry(9, "delivered", number=9, queues=[1, 2], **PLACE)
    assert torn.process == "consume-2"
    assert json.loads(torn.fields)["size"] == len(last) - 7


def test_damage_in_the_middle_costs_what_it_hit(spark: "SparkSession", run: pathlib.Path) -> None:
    path = run / "journal" / "produce-1.msgpack"
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 100] = b"\xc1" * 100
    path.write_bytes(raw)
    frame = spark.read.format("rmqlab-journal").option("maxPartitionBytes", "20000").load(str(run))
    assert frame.filter("kind = 'sent'").count() in (498, 499)
    assert frame.filter("kind = 'journal_torn' and process = 'produce-1'").count() == 1


def test_all_fields_are_there_as_json(spark: "SparkSession", run: pathlib.Path) -> None:
    frame = spark.read.format("rmqlab-journal").load(str(run / "journal"))
    row = frame.filter("kind = 'delivered'").orderBy("at").first()
    assert row is not None
    assert json.loads(row.fields) == {"number": 0, "queues": [1, 2], **PLACE}


def test_wrong_places_and_types_are_errors_before_anything_runs(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    with pytest.raises(AnalysisException, match=r"holds no journal: expected journal/<node>\.msgpack"):
        spark.read.format("rmqlab-journal").load(str(tmp_path))
    (tmp_path / "a.msgpack").write_bytes(entry(1, "sent"))
    with pytest.raises(AnalysisException, match="column number is date; fields are string, int"):
        spark.read.format("rmqlab-journal").schema("number date").load(str(tmp_path)).count()


@pytest.mark.parametrize("name", ["kinds", "notKinds"])
def test_a_kind_of_event_that_there_is_not_is_refused_with_the_near_miss(
    spark: "SparkSession", run: pathlib.Path, name: str
) -> None:
    with pytest.raises(AnalysisException, match=r"there is no kind delivred; did you mean delivered\?; kinds: "):
        spark.read.format("rmqlab-journal").option(name, "sent,delivred").load(str(run))


def test_uris_and_patterns_name_runs_and_a_link_to_a_run_repeats_nothing(
    spark: "SparkSession", run: pathlib.Path
) -> None:
    (run.parent / f"{run.name}-latest").symlink_to(run)
    for path in (f"file:{run}", f"{run}*", f"{run}/journal/*.msgpack"):
        frame = spark.read.format("rmqlab-journal").option("kinds", "sent").load(path)
        assert frame.count() == 500
    with pytest.raises(AnalysisException, match="nothing matches"):
        spark.read.format("rmqlab-journal").load(f"{run}/nothing-*")


def test_the_example_of_the_documents_counts_sends_and_no_attempts(spark: "SparkSession", run: pathlib.Path) -> None:
    attempts = [entry(n, "attempt_failed", outcome="refused", attempt=1) for n in range(9)]
    (run / "journal" / "produce-3.msgpack").write_bytes(b"".join(attempts))
    example = (ROOT / "docs" / "journal.md").read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {"spark": spark}
    exec(example.replace("~/.rmqlab/demo", str(run)), names)
    assert names["sent"].count() == 500
