"""The tables of a run's files are the same, whoever reads them."""

import contextlib
import pathlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmqlab.pipeline import commands
from rmqlab.pipeline.audit import sources
from rmqlab.pipeline.audit.relations import Query, Relations
from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.audit.sources import journal_tables, reading, store_tables
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from tests.cluster.checks.test_unreadable import deny
from tests.pipeline.violations import clean_run, planted_run, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("message_events", "raw_events", "queue_entries", "raw_records")


def rows(spark: "SparkSession", table: pathlib.Path) -> list[str]:
    return sorted(map(repr, spark.read.parquet(str(table)).collect()))


def test_this_process_reads_what_workers_read(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    directory = write_run(planted_run(), tmp_path / "run")
    (directory / "journal" / "torn-1.msgpack").write_bytes(b"\xc1" * 9)
    with reading(directory, tmp_path / "own", Scale.MEDIUM) as files:
        assert files is not None
        tables = {**files.journals.result(), **files.stores.result()}
    assert list(tables) == list(TABLES)
    relations = Relations(spark, tmp_path / "workers", Scale.LARGE)
    journal_tables(relations, directory, None)
    store_tables(relations, directory, None)
    for table in TABLES:
        own = rows(spark, tmp_path / "own" / table)
        assert own == rows(spark, tmp_path / "workers" / table)
        assert own


@pytest.mark.parametrize("scale", Scale)
def test_a_run_without_stores_has_empty_tables(spark: "SparkSession", tmp_path: pathlib.Path, scale: Scale) -> None:
    directory = write_run(planted_run(), tmp_path / "run")
    for store in directory.glob("*/store"):
        shutil.rmtree(store)
    relations = Relations(spark, tmp_path / "audit", scale)
    with reading(directory, relations.out, scale) as files:
        store_tables(relations, directory, files)
    entries, records = relations.execute([Query("select * from queue_entries"), Query("select * from raw_records")])
    assert (list(entries), list(records)) == ([], [])


def test_a_run_without_journals_is_refused_before_spark_starts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextlib.contextmanager
    def start(*_: object, **__: object) -> Iterator[None]:
        raise AssertionError("Spark was started")
        yield

    monkeypatch.setattr(commands, "open_session", start)
    choice = commands.SparkChoice(master="local", memory=None, settings={}, py_files=(), ship=False)
    with pytest.raises(click.exceptions.Exit) as caught:
        commands._judge(tmp_path, choice, lambda _: None)
    assert caught.value.exit_code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rmqlab: the audit of {tmp_path} failed: rmqlab-journal: {tmp_path} holds no journal")


@pytest.mark.parametrize("below", ["consumequeue", "consumequeue/orders/0", f"commitlog/{0:020d}"])
def test_places_without_permission_are_named_before_spark_starts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], below: str
) -> None:
    place = write_run(clean_run(), tmp_path) / "broker-a" / "store" / below
    deny(monkeypatch, place)
    choice = commands.SparkChoice(master="local", memory=None, settings={}, py_files=(), ship=False)
    with pytest.raises(click.exceptions.Exit) as caught:
        commands._judge(tmp_path, choice, lambda _: None)
    assert caught.value.exit_code == 2
    assert f"rmqlab: {place}: it cannot be read: expected files of the store of broker-a\n" in capsys.readouterr().err


def test_offsets_are_read_before_all_logs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that runs may append to its log, and save larger offsets, in between."""
    run = clean_run()
    run.offset_files = {"broker-a": {"orders@shop": {0: 5}}}
    directory = write_run(run, tmp_path / "run")
    path = directory / "broker-a" / "store" / "config" / "consumerOffset.json"
    write_stores = sources._write_stores

    def save_and_write(directory: pathlib.Path, out: pathlib.Path) -> object:
        path.write_bytes(ConsumerOffsets(offset_table={"orders@shop": {0: 10**6}}).encode())
        return write_stores(directory, out)

    monkeypatch.setattr(sources, "_write_stores", save_and_write)
    with sources.reading(directory, tmp_path / "out", Scale.SMALL) as files:
        assert files is not None
        files.stores.result()
        assert files.offsets.result().consumers == run.offset_files


def test_an_error_of_the_reading_is_raised_by_its_first_use(tmp_path: pathlib.Path) -> None:
    directory = write_run(planted_run(), tmp_path / "run")
    (tmp_path / "own").write_text("not a directory")
    with reading(directory, tmp_path / "own", Scale.SMALL) as files:
        assert files is not None
        with pytest.raises(OSError, match="own"):
            files.journals.result()


def test_a_reading_replaces_the_tables_of_an_earlier_one(tmp_path: pathlib.Path) -> None:
    directory = write_run(planted_run(), tmp_path / "run")
    old = tmp_path / "own" / "message_events" / "part-0.parquet"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    for _ in range(2):
        with reading(directory, tmp_path / "own", Scale.SMALL):
            pass
    assert [path.name for path in old.parent.iterdir()] == ["all.parquet"]


def test_a_file_exists_once_it_is_complete(tmp_path: pathlib.Path) -> None:
    """An attempt of a task may fail; the next one begins again."""
    path, batch = tmp_path / "part-00000.parquet", pa.RecordBatch.from_pydict({"offset": [5]})
    with contextlib.ExitStack() as attempt:
        attempt.enter_context(pytest.raises(OSError, match="no space"))
        attempt.enter_context(sources._table_file(path, batch.schema))(batch)
        raise OSError("no space")
    assert pq.read_table(tmp_path, schema=batch.schema).num_rows == 0
    with sources._table_file(path, batch.schema) as add:
        add(batch)
    assert pq.read_table(tmp_path).to_pylist() == [{"offset": 5}]
    assert list(tmp_path.iterdir()) == [path]
