"""A slave's copies of its master's metadata. No sockets."""

import pathlib
import threading
from typing import Any

import pytest
import trio
import trio.testing

from rmqlab.broker.config import BrokerConfig
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.metadata import MetadataSync
from rmqlab.broker.tables.offsets import ConsumerOffsetTable
from rmqlab.broker.tables.subscriptions import SubscriptionGroupTable
from rmqlab.broker.tables.topics import TopicTable
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.testing import ScriptedClient

MASTER = "10.0.0.1:10911"
VIP = "10.0.0.1:10909"
KINDS = (
    *(RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_CONSUMER_OFFSET),
    *(RequestCode.GET_ALL_DELAY_OFFSET, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
)


class Slave:
    """A slave's tables and their sync, against a scripted master."""

    def __init__(self, tmp_path: pathlib.Path) -> None:
        config = BrokerConfig(broker_role="SLAVE", broker_id=1)
        self.client = ScriptedClient()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.delay_path = tmp_path / "delayOffset.json"
        self.sync = MetadataSync(
            "10.0.0.2:10911",
            TopicTable(config, tmp_path / "topics.json", lambda: 1000),
            ConsumerOffsetTable(tmp_path / "consumerOffset.json"),
            SubscriptionGroupTable(config, tmp_path / "subscriptionGroup.json", lambda: 1000),
            self.delay_path,
            self.client,  # type: ignore[arg-type]
            lambda kind, **fields: self.events.append((kind, fields)),
            KnownMaster(),
        )

    def master_says(self, code: RequestCode, body: bytes, address: str = MASTER) -> None:
        self.client.replies[(address, code)] = Command(ResponseCode.SUCCESS, body=body)


@pytest.fixture
def slave(tmp_path: pathlib.Path) -> Slave:
    return Slave(tmp_path)


@pytest.fixture
def following(slave: Slave) -> Slave:
    slave.sync.known_master.address = MASTER
    empty = TopicConfigSerializeWrapper(data_version=slave.sync.topics.data_version).encode()
    slave.master_says(RequestCode.GET_ALL_TOPIC_CONFIG, empty, VIP)
    slave.master_says(RequestCode.GET_ALL_CONSUMER_OFFSET, b'{"offsetTable":{}}')
    slave.master_says(RequestCode.GET_ALL_DELAY_OFFSET, b'{"offsetTable":{1:2}}')
    groups = SubscriptionGroupWrapper(data_version=slave.sync.subscriptions.data_version).encode()
    slave.master_says(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups)
    return slave


async def test_the_first_copy_is_made_after_three_seconds_and_then_every_ten(
    following: Slave, autojump_clock: trio.testing.MockClock
) -> None:
    """store-ha#58."""
    assert autojump_clock.rate == 0.0
    with trio.move_on_after(25):
        await following.sync.sync_forever()
    starts = [at for at, _, command in following.client.asked if command.code == RequestCode.GET_ALL_TOPIC_CONFIG]
    assert starts == [3, 13, 23]


async def test_the_four_kinds_are_requested_in_order_and_only_topics_by_the_vip_port(following: Slave) -> None:
    """store-ha#58."""
    await following.sync.sync()
    asked = [(address, command.code) for _, address, command in following.client.asked]
    assert asked == list(zip((VIP, MASTER, MASTER, MASTER), KINDS, strict=True))


async def test_a_sync_ends_when_the_master_is_forgotten(following: Slave, monkeypatch: pytest.MonkeyPatch) -> None:
    """SlaveSynchronize reads the master's address again for each kind."""

    async def save_in_slices() -> None:  # after the copy of topics
        await trio.lowlevel.checkpoint()
        following.sync.forget_master()

    monkeypatch.setattr(following.sync.topics, "save_in_slices", save_in_slices)
    await following.sync.sync()
    assert [command.code for _, _, command in following.client.asked] == [RequestCode.GET_ALL_TOPIC_CONFIG]


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
async def test_one_that_fails_does_not_stop_the_others(
    following: Slave, failing: int, caplog: pytest.LogCaptureFixture
) -> None:
    """store-ha#58."""
    address = VIP if failing == 0 else MASTER
    following.client.replies[(address, KINDS[failing])] = None
    with caplog.at_level("INFO"):
        await following.sync.sync()
    assert [command.code for _, _, command in following.client.asked] == list(KINDS)
    assert KINDS[failing].name in caplog.text


async def test_a_master_that_refuses_a_kind_is_logged_once_with_its_remark(
    following: Slave, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = Command(ResponseCode.SYSTEM_ERROR, remark="no such table")
    following.client.replies[(MASTER, RequestCode.GET_ALL_DELAY_OFFSET)] = refusal
    for _ in range(2):
        await following.sync.sync()
    assert [record.getMessage() for record in caplog.records] == [
        f"GET_ALL_DELAY_OFFSET from {MASTER}: code 1, 'no such table'"
    ]


async def test_a_refusal_that_returns_after_a_success_is_logged_again(
    following: Slave, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = Command(ResponseCode.SYSTEM_ERROR, remark="no such table")
    success = Command(ResponseCode.SUCCESS, body=b'{"offsetTable":{}}')
    for reply in (refusal, success, refusal):
        following.client.replies[(MASTER, RequestCode.GET_ALL_DELAY_OFFSET)] = reply
        await following.sync.sync()
    assert len(caplog.records) == 2


async def test_a_sync_that_begins_during_another_asks_nothing(following: Slave) -> None:
    """A slave that hands offsets back also syncs when its master returns.

    The periodic sync may be running at that time.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(following.sync.sync)
        nursery.start_soon(following.sync.sync)
    assert len(following.client.asked) == 4


async def test_a_master_that_registered_nonsense_for_an_address_is_asked_in_vain(slave: Slave) -> None:
    """Any client can register a master of our name: its slave logs the failure."""
    slave.sync.known_master.address = "nonsense"
    await slave.sync.sync()
    assert {address for _, address, _ in slave.client.asked} == {"nonsense"}


async def test_without_a_known_master_nothing_is_asked(slave: Slave) -> None:
    """store-ha#61."""
    await slave.sync.sync()
    slave.sync.known_master.address = slave.sync.own_address
    await slave.sync.sync()
    assert slave.client.asked == []


async def test_topics_of_another_version_replace_all_of_ours(following: Slave) -> None:
    """store-ha#60."""
    following.sync.topics.create_plain("only-here", 1)
    wrapper = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=7, timestamp=5),
        topic_config_table={"orders": TopicConfig(topic_name="orders")},
    )
    following.master_says(RequestCode.GET_ALL_TOPIC_CONFIG, wrapper.encode(), VIP)
    await following.sync.sync()
    assert list(following.sync.topics.topics) == ["orders"]
    assert following.sync.topics.data_version == DataVersion(counter=7, timestamp=5)


async def test_topics_of_the_same_version_stay_as_they_are(following: Slave) -> None:
    """store-ha#60."""
    wrapper = TopicConfigSerializeWrapper(data_version=following.sync.topics.data_version)
    following.master_says(RequestCode.GET_ALL_TOPIC_CONFIG, wrapper.encode(), VIP)
    before = dict(following.sync.topics.topics)
    await following.sync.sync()
    assert following.sync.topics.topics == before


async def test_groups_of_another_version_replace_all_of_ours(following: Slave) -> None:
    """store-ha#60."""
    wrapper = SubscriptionGroupWrapper(
        data_version=DataVersion(counter=7, timestamp=5),
        subscription_group_table={"g": SubscriptionGroupConfig(group_name="g")},
    )
    following.master_says(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, wrapper.encode())
    await following.sync.sync()
    assert list(following.sync.subscriptions.groups) == ["g"]


async def test_offsets_are_taken_by_key_older_ones_too_and_said_so(following: Slave) -> None:
    """store-ha#60, store-ha#69: progress kept only on the slave is lost."""
    offsets = following.sync.offsets
    offsets.commit("g", "T", 0, 15)
    offsets.commit("g", "T", 1, 3)
    offsets.commit("other", "T", 0, 9)
    following.master_says(RequestCode.GET_ALL_CONSUMER_OFFSET, b'{"offsetTable":{"T@g":{0:10}}}')
    await following.sync.sync()
    assert offsets.offsets == {"T@g": {0: 10}, "T@other": {0: 9}}
    assert [kind for kind, _ in following.events] == ["consumer_offsets_overwritten"]


async def test_the_offsets_of_a_slave_have_a_limit(following: Slave, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that sends 500,000 new keys every 10 s filled the memory of its slave."""
    monkeypatch.setattr("rmqlab.broker.tables.offsets.MAX_KEYS", 2)
    monkeypatch.setattr("rmqlab.broker.tables.offsets.MAX_OFFSETS", 3)
    sync = following.sync
    await sync._apply_offsets(b'{"offsetTable":{"a@g":{0:1},"b@g":{0:1}}}')
    with pytest.raises(BodyError, match="more than 2 pairs"):
        await sync._apply_offsets(b'{"offsetTable":{"c@g":{0:1}}}')
    with pytest.raises(BodyError, match="more than 3 offsets"):
        await sync._apply_offsets(b'{"offsetTable":{"a@g":{1:1,2:1,3:1}}}')
    monkeypatch.setattr("rmqlab.broker.tables.offsets.MAX_KEYS", 3)
    with pytest.raises(BodyError, match="more than 1024 characters"):
        await sync._apply_offsets(b'{"offsetTable":{"%s@g":{0:1}}}' % (b"a" * 1024))
    assert sync.offsets.offsets == {"a@g": {0: 1}, "b@g": {0: 1}}
    await sync._apply_offsets(b'{"offsetTable":{"a@g":{1:1,2:1}}}')


async def test_a_slave_copies_so_many_topics_and_groups(
    following: Slave, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rmqlab.broker.tables.topics.MAX_COPIED", 1)
    monkeypatch.setattr("rmqlab.broker.tables.subscriptions.MAX_COPIED", 1)
    topics = {name: TopicConfig(topic_name=name) for name in "ab"}
    groups = {name: SubscriptionGroupConfig(group_name=name) for name in "ab"}
    version = DataVersion(counter=9)
    before = set(following.sync.topics.topics), set(following.sync.subscriptions.groups)
    following.master_says(
        RequestCode.GET_ALL_TOPIC_CONFIG,
        TopicConfigSerializeWrapper(data_version=version, topic_config_table=topics).encode(),
        VIP,
    )
    following.master_says(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        SubscriptionGroupWrapper(data_version=version, subscription_group_table=groups).encode(),
    )
    await following.sync.sync()
    assert (set(following.sync.topics.topics), set(following.sync.subscriptions.groups)) == before
    assert "2 topics, at most 1" in caplog.text
    assert "2 groups, at most 1" in caplog.text


async def test_other_tasks_run_while_large_tables_are_copied(
    following: Slave, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """A master's 500,000 topics kept a slave busy for 4 s, at once."""
    for name in ("metadata._MERGED_AT_ONCE", "tables.tablefile.SAVED_AT_ONCE", "tables.tablefile._ENCODED_AT_ONCE"):
        monkeypatch.setattr(f"rmqlab.broker.{name}", 10)
    monkeypatch.setattr("rmqlab.broker.metadata._DECODED_AT_ONCE", 1000)
    decoders = set[int]()
    decode = TopicConfigSerializeWrapper.decode

    def note_thread(body: bytes) -> TopicConfigSerializeWrapper:
        decoders.add(threading.get_ident())
        return decode(body)

    monkeypatch.setattr(TopicConfigSerializeWrapper, "decode", note_thread)
    topics = {f"t{number}": TopicConfig(topic_name=f"t{number}") for number in range(1000)}
    following.master_says(
        RequestCode.GET_ALL_TOPIC_CONFIG,
        TopicConfigSerializeWrapper(data_version=DataVersion(counter=9), topic_config_table=topics).encode(),
        VIP,
    )
    turns: list[int] = []

    async def work() -> None:
        while True:
            turns.append(len(following.sync.topics.file._entries))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await following.sync.sync()
        nursery.cancel_scope.cancel()
    assert len({count for count in turns if 0 < count < 1000}) > 50
    assert decoders
    assert threading.get_ident() not in decoders
    assert (tmp_path / "topics.json").read_bytes() == following.sync.topics.wrapper().encode_pretty()
    offsets = {f"t{number}@g": {0: 1} for number in range(1000)}
    merged: list[int] = []

    async def watch() -> None:
        while True:
            merged.append(len(following.sync.offsets.offsets))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await following.sync._apply_offsets(ConsumerOffsets(offset_table=offsets).encode())
        nursery.cancel_scope.cancel()
    assert len({count for count in merged if 0 < count < 1000}) > 50


async def test_delay_offsets_of_megabytes_are_not_written(following: Slave) -> None:
    await following.sync.sync()
    following.master_says(RequestCode.GET_ALL_DELAY_OFFSET, b'{"offsetTable":{1:3}}' + b" " * 2**20)
    await following.sync.sync()
    assert following.delay_path.read_text() == '{"offsetTable":{1:2}}'


@pytest.mark.parametrize("body", [b'{"offsetTable":{"T@g":{0:10}}}', b'{"offsetTable":{"T@g":{"0":10}}}'])
async def test_integer_keys_are_read_bare_and_quoted(following: Slave, body: bytes) -> None:
    """store-ha#59."""
    following.master_says(RequestCode.GET_ALL_CONSUMER_OFFSET, body)
    await following.sync.sync()
    assert following.sync.offsets.query("g", "T", 0) == 10


async def test_delay_offsets_only_reach_the_file_as_they_came(following: Slave) -> None:
    """store-ha#60."""
    await following.sync.sync()
    assert following.delay_path.read_text() == '{"offsetTable":{1:2}}'


async def test_the_last_good_offsets_are_on_disk_after_a_copy(following: Slave, tmp_path: pathlib.Path) -> None:
    following.master_says(RequestCode.GET_ALL_CONSUMER_OFFSET, b'{"offsetTable":{"T@g":{0:10}}}')
    await following.sync.sync()
    stored = ConsumerOffsets.decode((tmp_path / "consumerOffset.json").read_bytes())
    assert stored.offset_table == {"T@g": {0: 10}}


async def test_a_body_that_is_no_json_changes_nothing(following: Slave) -> None:
    following.sync.offsets.commit("g", "T", 0, 15)
    following.master_says(RequestCode.GET_ALL_CONSUMER_OFFSET, b"\xff\x00 what")
    await following.sync.sync()
    assert following.sync.offsets.query("g", "T", 0) == 15


NONSENSE = [
    b"\xff\x00 what",
    b"[]",
    b"null",
    b"[" * 100_000,
    b'{"offsetTable":{1:"many"},"topicConfigTable":5,"subscriptionGroupTable":5}',
    b'{"offsetTable":{1:' + b"9" * 30 + b'},"dataVersion":{"counter":' + b"9" * 30 + b"}}",
]


@pytest.mark.parametrize("body", NONSENSE, ids=range(len(NONSENSE)))
async def test_tables_that_make_no_sense_change_nothing_and_are_logged_once(
    following: Slave, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue 12.14. The file of delay offsets is not read here, but by the next master."""
    await following.sync.sync()
    topics, groups = dict(following.sync.topics.topics), dict(following.sync.subscriptions.groups)
    following.sync.offsets.commit("g", "T", 0, 15)
    following.master_says(RequestCode.GET_ALL_TOPIC_CONFIG, body, VIP)
    codes = (
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    )
    for code in codes:
        following.master_says(code, body)
    for _ in range(3):
        await following.sync.sync()
    assert (following.sync.topics.topics, following.sync.subscriptions.groups) == (topics, groups)
    assert following.sync.offsets.query("g", "T", 0) == 15
    assert following.delay_path.read_text() == '{"offsetTable":{1:2}}'
    assert len(caplog.records) == 4
    assert not following.sync.errors.counts


@pytest.mark.parametrize("address", ["m", "m:99999", "m:" + "9" * 5000, "m:\u0663", ":", ""])
async def test_a_master_that_has_no_address_is_asked_in_vain(slave: Slave, address: str) -> None:
    slave.sync.known_master.address = address
    slave.client.replies = dict.fromkeys(["m"])
    await slave.sync.sync()
    assert not slave.sync.errors.counts


async def test_an_unexpected_failure_does_not_stop_the_other_kinds(
    following: Slave, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_wrapper: object) -> bool:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(following.sync.topics, "replace_all", fail)
    following.master_says(RequestCode.GET_ALL_CONSUMER_OFFSET, b'{"offsetTable":{"T@g":{0:10}}}')
    await following.sync.sync()
    assert following.sync.offsets.query("g", "T", 0) == 10
    assert following.sync.errors.counts == {"metadata sync": 1}


async def test_a_forgotten_master_is_not_asked(following: Slave) -> None:
    """dledger#52: as in BrokerController.changeToSlave and changeToMaster."""
    following.sync.forget_master()
    following.sync.forget_master()
    await following.sync.sync()
    assert following.client.asked == []
    assert following.events == [("master_unknown", {"master_address": None})]
