"""What the sources refuse, tested without a JVM."""

import json
import os
import pathlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from rmqlab.pipeline.journals.journalsource import JournalSource
from rmqlab.pipeline.options import OptionError, bind_options
from rmqlab.pipeline.refusedstream import RefusedStream
from rmqlab.pipeline.stores.queuesource import QueueSource
from rmqlab.pipeline.stores.storesource import StoreSource
from rmqlab.pipeline.topics.topicbounds import PlanError
from rmqlab.pipeline.topics.topicoffsets import QueueName
from rmqlab.pipeline.topics.topicoptions import TopicOptions
from rmqlab.pipeline.topics.topicsource import TopicSource
from rmqlab.pipeline.topics.topicstream import StreamReader

if TYPE_CHECKING:
    from collections.abc import Callable

OFFLINE = (StoreSource, QueueSource, JournalSource)
TWICE = StructType([StructField(name, StringType()) for name in ("node", "node")])


@pytest.fixture
def files(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with an empty store and an empty journal."""
    (tmp_path / "broker-a" / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "broker-a.msgpack").touch()
    return tmp_path


@pytest.mark.parametrize("source", OFFLINE)
def test_offline_sources_take_one_path_or_several(source: type[DataSource], files: pathlib.Path) -> None:
    path, paths = os.fspath(files), json.dumps([os.fspath(files)])
    source({"path": path})
    source({"paths": paths})
    with pytest.raises(OptionError, match="options path and paths exclude each other"):
        source({"path": path, "paths": paths})
    with pytest.raises(OptionError, match="option path is needed: "):
        source({})


@pytest.mark.parametrize("source", OFFLINE)
def test_offline_sources_refuse_streams_when_the_query_begins(source: type[DataSource], files: pathlib.Path) -> None:
    refused = source({"path": os.fspath(files)}).streamReader(TWICE)
    with pytest.raises(OptionError, match=f"^{source.name()}: there are no streams .*: use spark.read instead"):
        refused.initialOffset()


def test_a_column_that_a_schema_names_twice_is_refused(files: pathlib.Path) -> None:
    for source in OFFLINE:
        with pytest.raises(OptionError, match=f"^{source.name()}: the schema names column node 2 times"):
            source({"path": os.fspath(files)}).reader(TWICE)


def test_kinds_of_events_are_wanted_or_not(files: pathlib.Path) -> None:
    JournalSource({"path": os.fspath(files), "kinds": "sent", "notKinds": "delivered"})
    with pytest.raises(OptionError, match=r"options kinds and notKinds both name sent$"):
        JournalSource({"path": os.fspath(files), "kinds": "sent,delivered", "notKinds": "sent"})


@pytest.mark.parametrize(
    ("options", "column", "said"),
    [
        ({"endingTimestamp": "9"}, StructField("queueId", IntegerType()), "endingTimestamp is for a batch read only"),
        ({}, StructField("queueId", StringType()), "column queueId is int, not string"),
    ],
)
def test_a_stream_is_refused_at_whichever_method_spark_calls_first(
    options: dict[str, str], column: StructField, said: str
) -> None:
    """`streamReader` must not raise: Spark would add an error of its own."""
    source = TopicSource({"nameServer": "a:1", "topic": "t", **options})
    refused = source.streamReader(StructType([column]))
    assert isinstance(refused, RefusedStream)
    calls: list[Callable[[], object]] = [
        refused.prepareForTriggerAvailableNow,
        refused.initialOffset,
        lambda: refused.latestOffset({}, ReadAllAvailable()),
        lambda: refused.partitions({}, {}),
    ]
    for call in calls:
        with pytest.raises(OptionError, match=said):
            call()


def test_a_file_of_starting_offsets_that_cannot_be_written_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "missing" / "start.json"
    given = {"nameServer": "a:1", "topic": "t", "startingOffsetsFile": os.fspath(place)}
    reader = StreamReader(bind_options(TopicOptions, given, source="rocketmq"), pa.schema([]))
    bounds = reader.bounds
    bounds.queues.add(QueueName("t", "b", 0))
    for name in ("look", "resolve", "try_reading"):
        monkeypatch.setattr(type(bounds), name, lambda *_: {})
    with pytest.raises(PlanError, match=f"{place} of option startingOffsetsFile cannot be written: No such file"):
        reader.initialOffset()
