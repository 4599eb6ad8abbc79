"""Topics, subscription groups and committed offsets: what a fresh broker has, what a change does, what outlives it."""

import pathlib

import pytest

from broker.config import BrokerConfig
from broker.offsets import ConsumerOffsetTable
from broker.subscriptions import SubscriptionGroupTable
from broker.topics import TopicTable

CONFIG = BrokerConfig(broker_cluster_name="C", broker_name="b")


def open_topics(tmp_path: pathlib.Path, config: BrokerConfig = CONFIG) -> TopicTable:
    return TopicTable(config, tmp_path / "topics.json", lambda: 1000)


def open_groups(tmp_path: pathlib.Path, config: BrokerConfig = CONFIG) -> SubscriptionGroupTable:
    return SubscriptionGroupTable(config, tmp_path / "subscriptionGroup.json", lambda: 1000)


def test_a_fresh_broker_has_these_topics(tmp_path: pathlib.Path) -> None:
    """store-ha#64."""
    topics = open_topics(tmp_path).topics.values()
    assert {topic.topic_name: (topic.read_queue_nums, topic.write_queue_nums, topic.perm) for topic in topics} == {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "TBW102": (8, 8, 7),
        "BenchmarkTest": (1024, 1024, 6),
        "C": (16, 16, 7),
        "b": (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "C_REPLY_TOPIC": (1, 1, 6),
    }
    assert not (tmp_path / "topics.json").exists()


def test_the_template_is_there_only_where_topics_may_be_created(tmp_path: pathlib.Path) -> None:
    """store-ha#64."""
    assert open_topics(tmp_path, BrokerConfig(auto_create_topic_enable=False)).get("TBW102") is None


def test_a_new_group_has_these_defaults(tmp_path: pathlib.Path) -> None:
    """store-ha#64."""
    group = open_groups(tmp_path).find("g")
    assert group is not None
    assert (group.which_broker_when_consume_slowly, group.broker_id) == (1, 0)
    assert (group.retry_queue_nums, group.retry_max_times) == (1, 16)
    assert group.consume_enable
    assert group.consume_from_min_enable
    assert group.consume_broadcast_enable


def test_a_fresh_broker_has_these_groups(tmp_path: pathlib.Path) -> None:
    """store-ha#64."""
    assert set(open_groups(tmp_path).groups) == {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
    }


def test_without_auto_creation_an_unknown_group_is_none_but_for_the_systems_own(tmp_path: pathlib.Path) -> None:
    groups = open_groups(tmp_path, BrokerConfig(auto_create_subscription_group=False))
    assert groups.find("g") is None
    assert groups.find("CID_RMQ_SYS_TRANS") is not None


def test_a_changed_topic_moves_the_version_and_is_on_disk_at_once(tmp_path: pathlib.Path) -> None:
    """store-ha#63."""
    topics = open_topics(tmp_path)
    before = topics.data_version
    topics.create_plain("orders", 4)
    assert topics.data_version.counter == before.counter + 1
    again = open_topics(tmp_path)
    assert again.get("orders") == topics.get("orders")
    assert again.data_version == topics.data_version


def test_a_changed_group_moves_the_version_and_is_on_disk_at_once(tmp_path: pathlib.Path) -> None:
    """store-ha#63."""
    groups = open_groups(tmp_path)
    groups.find("g")
    again = open_groups(tmp_path)
    assert "g" in again.groups
    assert again.data_version == groups.data_version
    assert again.delete("g")
    assert not again.delete("g")
    assert "g" not in open_groups(tmp_path).groups


@pytest.mark.parametrize(("wanted", "made"), [(4, 4), (20, 8), (0, 0), (-1, 0)])
def test_a_topic_gets_as_many_queues_as_are_wanted_and_the_template_has(
    tmp_path: pathlib.Path, wanted: int, made: int
) -> None:
    """broker-requests#13."""
    topic = open_topics(tmp_path).create_from_default("T", "TBW102", wanted, unit_mode=False, is_retry=False)
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (made, made, 6)


def test_a_template_that_does_not_pass_on_makes_no_topic(tmp_path: pathlib.Path) -> None:
    """broker-requests#14."""
    topics = open_topics(tmp_path)
    assert topics.create_from_default("T", "BenchmarkTest", 4, unit_mode=False, is_retry=False) is None
    assert topics.create_from_default("T", "nothing", 4, unit_mode=False, is_retry=False) is None


def test_committed_offsets_outlive_the_broker_once_they_are_saved(tmp_path: pathlib.Path) -> None:
    """store-ha#63."""
    offsets = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
    assert offsets.commit("g", "T", 0, 5) is None
    assert offsets.commit("g", "T", 0, 3) == 5
    assert ConsumerOffsetTable(tmp_path / "consumerOffset.json").query("g", "T", 0) is None
    offsets.save()
    assert ConsumerOffsetTable(tmp_path / "consumerOffset.json").query("g", "T", 0) == 3


def test_offsets_are_found_by_group_and_by_topic(tmp_path: pathlib.Path) -> None:
    offsets = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "U", 0, 6)
    offsets.commit("h", "T", 0, 7)
    assert sorted(offsets.topics_of("g")) == ["T", "U"]
    assert offsets.groups_of("T") == {"g", "h"}
    offsets.clone("g", "new", "T")
    offsets.remove_group("g")
    assert offsets.query("g", "T", 0) is None
    assert offsets.query("new", "T", 0) == 5
