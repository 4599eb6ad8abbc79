"""Topics, subscription groups and offsets: fresh state, changes, persistence."""

import pathlib
import threading
from collections.abc import Callable  # noqa: TC003

import pytest
import trio

from rmqlab.broker.config import BrokerConfig
from rmqlab.broker.tables.offsets import ConsumerOffsetTable
from rmqlab.broker.tables.subscriptions import SubscriptionGroupTable
from rmqlab.broker.tables.topics import TopicTable
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.body import encode_pretty_entry
from rmqlab.runtime.net.dispatch import Refusal
from rmqlab.store.files.configfile import keep_config_file

CONFIG = BrokerConfig(broker_cluster_name="C", broker_name="b")


def open_topics(tmp_path: pathlib.Path, config: BrokerConfig = CONFIG) -> TopicTable:
    return TopicTable(config, tmp_path / "topics.json", lambda: 1000)


def open_groups(tmp_path: pathlib.Path, config: BrokerConfig = CONFIG) -> SubscriptionGroupTable:
    return SubscriptionGroupTable(config, tmp_path / "subscriptionGroup.json", lambda: 1000)


def test_files_of_tables_are_encoded_only_where_they_changed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.6: the text stays that of the body."""
    encoded: list[object] = []

    def encode(key: object, value: object) -> bytes:
        encoded.append(key)
        return encode_pretty_entry(key, value)

    monkeypatch.setattr("rmqlab.broker.tables.tablefile.encode_pretty_entry", encode)
    monkeypatch.setattr("rmqlab.broker.tables.tablefile._SPARE", 2)
    topics, groups = open_topics(tmp_path), open_groups(tmp_path)
    for name in ('a"b', "c\u4e2d", "d", 'a"b', "e"):
        topics.create_plain(name, 3)
        groups.find(name)
        assert (tmp_path / "topics.json").read_bytes() == topics.wrapper().encode_pretty()
        assert (tmp_path / "subscriptionGroup.json").read_bytes() == groups.wrapper().encode_pretty()
    assert sorted(encoded) == sorted([*topics.topics, *groups.groups])  # type: ignore[type-var]
    for name in ('a"b', "c\u4e2d", "d", "e"):
        topics.delete(name)
    assert (tmp_path / "topics.json").read_bytes() == topics.wrapper().encode_pretty()
    assert len(topics.file._entries) <= len(topics.topics) + 2
    groups.replace_all(SubscriptionGroupWrapper(data_version=DataVersion(counter=9)))
    assert (tmp_path / "subscriptionGroup.json").read_bytes() == groups.wrapper().encode_pretty()


def test_the_files_of_large_tables_follow_later(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 12.6: with each of 100,000 groups a file of 30 MB was written."""
    monkeypatch.setattr("rmqlab.broker.tables.tablefile.SAVED_AT_ONCE", 0)
    topics, groups = open_topics(tmp_path), open_groups(tmp_path)
    topics.create_plain("T", 3)
    groups.find("g")
    assert list(tmp_path.iterdir()) == []
    for table in (topics, groups):
        table.save_changes()
    assert open_topics(tmp_path).get("T") is not None
    assert "g" in open_groups(tmp_path).groups
    written = [path.stat().st_mtime_ns for path in tmp_path.iterdir()]
    for table in (topics, groups):
        table.save_changes()
    assert [path.stat().st_mtime_ns for path in tmp_path.iterdir()] == written


def test_the_changes_of_a_pass_are_written_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat with 1700 new groups wrote 3400 files, while all clients waited."""
    written: list[str] = []
    monkeypatch.setattr(
        "rmqlab.broker.tables.tablefile.keep_config_file", lambda path, _content: written.append(path.name)
    )
    deferred: list[Callable[[], None]] = []
    config = BrokerConfig()
    topics = TopicTable(config, tmp_path / "topics.json", lambda: 1000, deferred.append)
    groups = SubscriptionGroupTable(config, tmp_path / "subscriptionGroup.json", lambda: 1000, deferred.append)
    for _ in range(2):
        for number in range(3):
            groups.put(SubscriptionGroupConfig(group_name=f"g{number}"))
            topics.put(TopicConfig(topic_name=f"t{number}"))
        assert written == []
        for save in deferred:
            save()
        assert written == ["subscriptionGroup.json", "topics.json"]
        deferred.clear()
        written.clear()


@pytest.mark.parametrize(("at_once", "encoded_late"), [(5, 1), (100, 10)])
async def test_a_large_table_is_encoded_before_its_first_change(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, at_once: int, encoded_late: int
) -> None:
    """There are ten topics. An idle broker does not encode a small table."""
    monkeypatch.setattr("rmqlab.broker.tables.tablefile._ENCODED_AT_ONCE", at_once)
    open_topics(tmp_path).create_plain("T", 3)
    topics = open_topics(tmp_path)
    await topics.file.prepare(topics.topics)
    monkeypatch.setattr(
        "rmqlab.broker.tables.tablefile.encode_pretty_entry", lambda key, _value: b"\n\t\t" + key.encode() + b":{}"
    )
    topics.create_plain("U", 3)
    assert (tmp_path / "topics.json").read_bytes().count(b"{}") == encoded_late


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


def test_the_template_topic_exists_only_with_auto_create_topic_enable(tmp_path: pathlib.Path) -> None:
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


def test_without_auto_creation_only_system_groups_are_created(tmp_path: pathlib.Path) -> None:
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


def test_the_version_after_the_last_one_can_be_read(tmp_path: pathlib.Path) -> None:
    """No nameserver would accept a greater one, which a hostile master can cause."""
    topics = open_topics(tmp_path)
    topics.replace_all(TopicConfigSerializeWrapper(data_version=DataVersion(counter=2**63 - 1)))
    topics.create_plain("orders", 4)
    assert TopicConfigSerializeWrapper.decode(topics.wrapper().encode()).data_version == topics.data_version


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


def test_offsets_are_encoded_as_their_body_is(tmp_path: pathlib.Path) -> None:
    """In slices and from pieces that are kept: the text is the same at any time."""
    offsets = ConsumerOffsetTable(tmp_path / "consumerOffset.json")

    def check() -> None:
        offsets.save()
        body = ConsumerOffsets(offset_table=offsets.offsets)
        assert offsets.encode() == body.encode()
        assert (tmp_path / "consumerOffset.json").read_bytes() == body.encode_pretty()

    check()
    for number in range(1500):
        offsets.commit(f'g"{number}', "T\n\u4e2d", number % 3, number)
    check()
    offsets.commit('g"7', "T\n\u4e2d", 9, 2**62)
    check()
    offsets.clone('g"7', "h", "T\n\u4e2d")
    offsets.remove_group('g"7')
    check()
    offsets.merge("T@new", {0: 1}, {})
    offsets.merge("T\n\u4e2d@h", {0: -1}, {})
    check()


def test_offsets_that_did_not_change_are_neither_encoded_nor_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.6: with 100,000 groups the file has 10 MB."""
    written: list[pathlib.Path] = []
    monkeypatch.setattr(
        "rmqlab.broker.tables.offsetsfile.keep_config_file", lambda path, _content: written.append(path)
    )
    offsets = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
    for number in range(100):
        offsets.commit(f"g{number}", "T", 0, 1)
    offsets.save()
    offsets.save()
    assert len(written) == 1
    offsets.commit("g7", "T", 0, 2)
    assert list(offsets._file.dirty) == ["T@g7"]
    offsets.save()
    assert len(written) == 2


async def test_offsets_are_saved_in_slices(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(
        "rmqlab.broker.tables.offsetsfile.keep_config_file", lambda *_args: threads.append(threading.current_thread())
    )
    monkeypatch.setattr("rmqlab.broker.tables.offsetsfile._WRITTEN_AT_ONCE", 1000)
    offsets, turns = ConsumerOffsetTable(tmp_path / "consumerOffset.json"), 0
    for number in range(5000):
        offsets.commit(f"g{number}", "T", 0, 1)
    async with trio.open_nursery() as nursery:

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        nursery.start_soon(count_turns)
        await offsets.save_in_slices()
        nursery.cancel_scope.cancel()
    assert turns >= 9
    assert threads != [threading.main_thread()]


async def test_offsets_that_no_thread_could_save_are_saved_by_the_next_save(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def without_thread(*_args: object) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("rmqlab.broker.tables.offsetsfile._WRITTEN_AT_ONCE", 0)
    monkeypatch.setattr("rmqlab.broker.tables.offsetsfile.in_thread", without_thread)
    offsets = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
    offsets.commit("G", "T", 0, 1)
    with pytest.raises(RuntimeError):
        await offsets.save_in_slices()
    offsets.save()
    assert ConsumerOffsetTable(tmp_path / "consumerOffset.json").query("G", "T", 0) == 1


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_KEYS", 3), ("MAX_BYTES_FOR_NEW", 40), ("MAX_NAME_SIZE", len("T@g3") - 1)]
)
def test_a_full_offset_table_rejects_new_entries(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    offsets = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
    for number in range(3):
        offsets.commit(f"g{number}", "T", 0, 1)
    monkeypatch.setattr(f"rmqlab.broker.tables.offsets.{limit}", value)
    with pytest.raises(Refusal):
        offsets.commit("g3", "T", 0, 1)
    with pytest.raises(Refusal):
        offsets.clone("g0", "g3", "T")
    offsets.commit("g0", "T", 0, 2)
    assert (len(offsets.offsets), offsets.query("g0", "T", 0)) == (3, 2)
    monkeypatch.undo()
    offsets.remove_group("g0")
    monkeypatch.setattr("rmqlab.broker.tables.offsets.MAX_KEYS", 3)
    offsets.commit("g3", "T", 0, 1)


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


def test_order_flags_of_a_nameserver_outlive_a_restart(tmp_path: pathlib.Path) -> None:
    topics = open_topics(tmp_path)
    topics.create_plain("orders", 4)
    version = topics.data_version
    assert topics.apply_order_topics(["orders"])
    again = open_topics(tmp_path)
    assert again.topics["orders"].order
    assert again.data_version == topics.data_version != version
    assert not topics.apply_order_topics(["orders"]), "nothing changed"


def test_order_flags_go_by_the_key_of_a_topic(tmp_path: pathlib.Path) -> None:
    """TopicConfigManager.updateOrderTopicConfig.

    A master's table can have another name in the entry than as its key.
    """
    topics = open_topics(tmp_path)
    misnamed = TopicConfig(topic_name="other", read_queue_nums=1, write_queue_nums=1)
    topics.replace_all(TopicConfigSerializeWrapper(topic_config_table={"orders": misnamed}))
    assert topics.apply_order_topics(["orders"])
    assert [*topics.topics] == ["orders"]
    assert topics.topics["orders"].order


def test_a_table_that_a_full_disk_refused_is_saved_at_a_stop(talk: TalkingBroker, tmp_path: pathlib.Path) -> None:
    (tmp_path / "config").write_text("a file where the directory should be")
    path = tmp_path / "config" / "topics.json"
    keep_config_file(path, b"{}")
    (tmp_path / "config").unlink()
    talk.broker.save_tables()
    assert path.read_bytes() == b"{}"
