"""Absent broker groups: reads fail or report omissions, and never end early."""

import contextlib
import json
import pathlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

from rmqlab.pipeline.topics.topicbounds import Bounds, PlanError
from rmqlab.pipeline.topics.topicoffsets import EARLIEST, LATEST, AtTime
from rmqlab.pipeline.topics.topicoptions import TopicOptions
from rmqlab.store.offline.scan import LogScan
from tests.pipeline.conftest import Lab
from tests.pipeline.test_topicsource import Stream, bodies, numbered, read, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = ("--name", "groups")
BACK = {"stop": "start", "kill": "start", "pause": "resume"}
"""A broker that was stopped or killed is in no route; one that is paused still is, and does not respond."""


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two broker groups without slaves."""
    lab = Lab(tmp_path_factory.mktemp("groups"), "--groups", "2", "--slaves", "0", *NAME)
    yield lab
    lab.run("down", *NAME)


@pytest.fixture
def topic(groups: Lab, request: pytest.FixtureRequest) -> str:
    """Create a topic for a test: two queues at each of two brokers, 80 messages."""
    name = f"topic-{abs(hash(request.node.name))}"
    groups.create_topic(name, 2)
    bounds = Bounds(TopicOptions(name_server=groups.namesrv_addr, topic=name))
    deadline = time.monotonic() + 60
    while len(bounds.queues) < 4:
        assert time.monotonic() < deadline
        bounds.look()
    groups.send(name, numbered(0, 80))
    return name


@contextlib.contextmanager
def away(lab: Lab, how: str) -> Iterator[None]:
    """Broker group a is away for the length of the block."""
    lab.run(how, "broker-a", *NAME)
    try:
        yield
    finally:
        lab.run(BACK[how], "broker-a", *NAME)


def at_broker(lab: Lab, name: str, topic: str) -> list[str]:
    """The bodies in one broker's files."""
    log = LogScan(lab.home / "groups" / name / "store" / "commitlog")
    return sorted(message.body.decode() for message in log.messages() if message.topic == topic)


def test_a_batch_fails_without_a_broker_that_it_expects(spark: "SparkSession", groups: Lab, topic: str) -> None:
    both = {"brokers": "broker-a,broker-b"}
    assert bodies(read(spark, groups, topic, **both)) == texts(0, 80)
    with away(groups, "kill"):
        with pytest.raises(
            AnalysisException, match=r"no route has broker-a of option brokers; brokers in routes: broker-b"
        ):
            read(spark, groups, topic, **both).count()
        found = bodies(read(spark, groups, topic, **both, failOnDataLoss="false"))
        assert found == at_broker(groups, "broker-b", topic)


def test_a_batch_fails_without_a_broker_of_its_assignment(spark: "SparkSession", groups: Lab, topic: str) -> None:
    assign = json.dumps({topic: {"broker-a": [0], "broker-b": [0, 1]}})
    reader = spark.read.format("rocketmq").options(nameServer=groups.namesrv_addr, assign=assign)
    with away(groups, "kill"):
        with pytest.raises(AnalysisException, match=rf"no route has {topic}@broker-a:0 of option assign; .*Start the"):
            reader.load().count()
        found = bodies(reader.option("failOnDataLoss", "false").load())
        assert found == at_broker(groups, "broker-b", topic)


def test_a_batch_fails_at_a_group_that_does_not_answer(spark: "SparkSession", groups: Lab, topic: str) -> None:
    with away(groups, "pause"):
        with pytest.raises(AnalysisException, match=rf"broker-a \({topic}@broker-a:0, {topic}@broker-a:1\): no member"):
            read(spark, groups, topic, requestTimeoutMs="1000").count()
        found = bodies(read(spark, groups, topic, requestTimeoutMs="1000", failOnDataLoss="false"))
        assert found == at_broker(groups, "broker-b", topic)


def test_brokers_that_a_batch_leaves_out_are_in_one_warning(
    groups: Lab, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = TopicOptions(name_server=groups.namesrv_addr, topic=topic, request_timeout_ms=1000)
    with away(groups, "pause"):
        with pytest.raises(PlanError, match="Start the broker"):
            planned(Bounds(options))
        caplog.clear()
        assert planned(Bounds(options, may_skip=True)) == {"broker-b"}
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"broker-a ({topic}@broker-a:0, {topic}@broker-a:1): no member responds" in warning


@pytest.mark.long
def test_a_queue_whose_commit_is_unknown_is_left_out_and_does_not_begin_elsewhere(groups: Lab, topic: str) -> None:
    options = TopicOptions(
        name_server=groups.namesrv_addr, topic=topic, starting_group="billing", starting_offsets=LATEST
    )
    bounds = Bounds(options, may_skip=True)
    bounds.look()
    with away(groups, "pause"):
        assert bounds.commits().offsets == {}
    assert {queue.broker for queue in bounds.resolve(dict.fromkeys(bounds.queues, LATEST))} == {"broker-b"}


def planned(bounds: Bounds) -> set[str]:
    """Resolve a beginning and an end; the brokers of the queues that both have."""
    bounds.look()
    starts, ends = (bounds.resolve(dict.fromkeys(bounds.queues, place)) for place in (EARLIEST, AtTime(0)))
    return {queue.broker for queue in starts.keys() & ends.keys()}


@pytest.mark.parametrize("how", ["kill", pytest.param("pause", marks=pytest.mark.long)])
def test_a_stream_does_not_end_short_of_queues_that_its_checkpoint_names(
    spark: "SparkSession", groups: Lab, topic: str, tmp_path: pathlib.Path, how: str
) -> None:
    stream = Stream(spark, groups, tmp_path, topic)
    stream.once()
    assert stream.seen() == texts(0, 80)
    groups.send(topic, numbered(80, 40))
    with away(groups, how):
        with pytest.raises(PySparkException, match=rf"silent for 3000 ms .*broker-a \({topic}@broker-a:0, "):
            stream.once(pollTimeoutMs="3000")
        stream.once(pollTimeoutMs="3000", failOnDataLoss="false")
        assert set(stream.seen()) == set(texts(0, 80)) | set(at_broker(groups, "broker-b", topic))
    stream.once()
    assert stream.seen() == texts(0, 120)


def test_a_stream_that_runs_on_waits_for_a_group_and_then_fails(
    spark: "SparkSession", groups: Lab, topic: str, tmp_path: pathlib.Path
) -> None:
    stream = Stream(spark, groups, tmp_path, topic)
    query = stream.start(pollTimeoutMs="6000")
    try:
        stream.wait_seen(texts(0, 80))
        with (
            away(groups, "stop"),
            pytest.raises(PySparkException, match=r"silent for 6000 ms .*broker-a .*in routes: "),
        ):
            query.awaitTermination(240)
    finally:
        query.stop()


def test_a_stream_fails_at_once_without_a_broker_that_it_expects(
    spark: "SparkSession", groups: Lab, topic: str, tmp_path: pathlib.Path
) -> None:
    stream = Stream(spark, groups, tmp_path, topic)
    with pytest.raises(
        PySparkException, match=r"no route has broker-c of option brokers; brokers in routes: broker-a, broker-b"
    ):
        stream.once(brokers="broker-a,broker-b,broker-c")
    stream.once(brokers="broker-a,broker-b")
    assert stream.seen() == texts(0, 80)


def test_a_stream_of_a_deleted_topic_names_a_new_checkpoint_as_remedy(
    spark: "SparkSession", groups: Lab, topic: str, tmp_path: pathlib.Path
) -> None:
    stream = Stream(spark, groups, tmp_path, topic)
    stream.once()
    groups.run("topics", "delete", topic, *NAME)
    with pytest.raises(PySparkException, match=r"in routes: none\. If the topics were deleted, start with a new check"):
        stream.once(pollTimeoutMs="1000")
