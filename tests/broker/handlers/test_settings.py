"""A broker's settings over the wire (broker-requests sections 6.5, #61)."""

import json
import pathlib
from collections.abc import Callable

import attrs
import pytest

from rmqlab.broker.config import BrokerConfig, load_config
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ignored_settings import DEFAULTS
from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting import names
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.message import decode_message, parse_offset_message_id
from rmqlab.remoting.properties import parse_properties_text
from rmqlab.runtime.config.settings import camel, snake
from rmqlab.store.config import StoreConfig

Opener = Callable[..., TalkingBroker]


def shown(talk: TalkingBroker) -> dict[str, str]:
    reply = talk.ask(RequestCode.GET_BROKER_CONFIG)
    assert reply.code == ResponseCode.SUCCESS
    return parse_properties_text(reply.body.decode())


def version(talk: TalkingBroker) -> dict[str, int]:
    text: dict[str, int] = json.loads(talk.ask(RequestCode.GET_BROKER_CONFIG).ext_fields["version"])
    return text


def change(talk: TalkingBroker, text: str) -> int:
    return talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, text.encode()).code


def test_all_settings_are_shown_under_rocketmqs_names(talk: TalkingBroker) -> None:
    """broker-requests#61."""
    lines = shown(talk)
    assert lines["brokerName"] == "broker-a"
    assert lines["brokerIP1"] == "127.0.0.1"
    assert lines["mappedFileSizeCommitLog"] == "1048576"
    assert lines["longPollingEnable"] == "true"
    assert lines["haListenPort"] == "10912"
    assert lines["haTransferBatchSize"] == "32768"
    assert lines["storePathRootDir"] == str(talk.broker.store.config.store_path_root_dir)
    assert version(talk) == {"counter": 0, "timestamp": talk.broker.started_at_millis}


EXPORTED = (  # mqadmin exportConfigs fails where one is missing, exportMetrics shows the last
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime", "filterServerNums",
    "flushDiskType", "maxMessageSize", "messageDelayLevel", "msgTraceTopicName", "slaveReadEnable", "traceOn",
    "traceTopicEnable", "useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
    "clientCallbackExecutorThreads",
)  # fmt: skip


@pytest.mark.parametrize("key", EXPORTED)
def test_settings_that_tools_require_are_shown(talk: TalkingBroker, key: str) -> None:
    assert key in shown(talk)


def test_settings_of_parts_that_are_not_here_are_kept_and_shown(
    talk: TalkingBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """broker-requests#61: with 4.9.8's defaults, else as they were set.

    Setting one logs that it has no effect.
    """
    assert shown(talk)["sendThreadPoolQueueCapacity"] == "10000"
    assert len(shown(talk)) > 180
    assert (
        change(talk, "sendThreadPoolQueueCapacity=20000\nuseTLS=true\nserverWorkerThreads=8\n") == ResponseCode.SUCCESS
    )
    assert "without effect here: send_thread_pool_queue_capacity, use_tls" in caplog.text
    assert (shown(talk)["sendThreadPoolQueueCapacity"], shown(talk)["useTLS"]) == ("20000", "true")
    caplog.clear()
    saved = load_config(talk.broker.settings.source.source)
    assert (saved.unused.send_thread_pool_queue_capacity, saved.unused.use_tls) == (20_000, True)
    assert "no effect here: send_thread_pool_queue_capacity, use_tls" in caplog.text
    assert change(talk, "serverWorkerThreads=many\n") == ResponseCode.SYSTEM_ERROR


def test_no_setting_is_both_effective_and_ignored() -> None:
    used = {field.name for kind in (BrokerConfig, StoreConfig, HaSettings) for field in attrs.fields(kind)}
    assert used & {snake(key) for key in DEFAULTS} == set()
    assert [key for key in DEFAULTS if camel(snake(key)) != key] == []


def test_a_change_counts_at_once_and_after_a_restart(talk: TalkingBroker) -> None:
    """broker-requests#61: broker, store and replication settings alike.

    Unknown keys change nothing.
    """
    talk.clock.advance(9)
    changes = "slaveReadEnable=true\nfileReservedTime=24\nhaSlaveFallbehindMax=1000\nslaveTimeout=500\nnoSuchKey=1\n"
    assert change(talk, changes) == ResponseCode.SUCCESS
    broker = talk.broker
    assert broker.config.slave_read_enable
    assert broker.store.config.file_reserved_time == 24
    assert broker.ha_master.settings.ha_slave_fallbehind_max == 1000
    assert broker.slave_waits.timeout == 0.5
    assert (shown(talk)["fileReservedTime"], "noSuchKey" in shown(talk)) == ("24", False)
    assert version(talk) == {"counter": 1, "timestamp": talk.clock.now_millis()}
    saved = load_config(broker.settings.source.source)
    assert (saved.broker.slave_read_enable, saved.store.file_reserved_time) == (True, 24)
    assert saved.store.store_path_root_dir == broker.store.config.store_path_root_dir
    assert [kind for kind, _ in talk.events] == ["settings_changed"]


def test_a_change_reaches_the_tables(talk: TalkingBroker) -> None:
    change(talk, "autoCreateTopicEnable=false\nautoCreateSubscriptionGroup=false")
    assert talk.send("New").code == ResponseCode.TOPIC_NOT_EXIST
    assert talk.send("%RETRY%g").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_change_reaches_pulls_and_sends(talk: TalkingBroker) -> None:
    for _ in range(3):
        talk.send("T")
    change(talk, "maxTransferCountOnMessageInMemory=2\nflushDiskType=SYNC_FLUSH")
    (reply,) = talk.pull("T")
    assert reply.ext_fields["nextBeginOffset"] == "2"
    assert talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T")) == []


def test_the_former_file_is_kept_beside(talk: TalkingBroker) -> None:
    import pathlib

    path = pathlib.Path(talk.broker.settings.source.source)
    before = path.read_text()
    change(talk, 'regionId=the "north"')
    assert path.with_name("broker.toml.bak").read_text() == before
    assert load_config(path).broker.region_id == 'the "north"'


@pytest.mark.parametrize("key", ["brokerConfigPath", "configBlackList", "rocketmqHome"])
def test_some_keys_no_tool_may_change(talk: TalkingBroker, key: str) -> None:
    """broker-requests#61: nothing else changes either."""
    assert change(talk, f"{key}=x\nregionId=y") == ResponseCode.NO_PERMISSION
    assert talk.broker.config.region_id == "DefaultRegion"


def test_an_operator_may_forbid_more(open_broker: Opener) -> None:
    talk = open_broker(config_black_list="regionId;traceOn")
    assert change(talk, "traceOn=false") == ResponseCode.NO_PERMISSION
    assert change(talk, "slaveReadEnable=true") == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    "text", ["slaveTimeout=soon", "brokerPermission=9", "longPollingEnable=perhaps", "clientWorkerThreads=2147483648"]
)
def test_a_value_that_does_not_fit_changes_nothing(talk: TalkingBroker, text: str) -> None:
    assert change(talk, f"regionId=y\n{text}") == ResponseCode.SYSTEM_ERROR
    assert talk.broker.config.region_id == "DefaultRegion"
    assert version(talk)["counter"] == 0


def test_the_reason_is_one_that_a_person_can_read(talk: TalkingBroker) -> None:
    reply = talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=9")
    assert reply.remark == "broker_permission = 9: expected 0 to 7"
    reply = talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerRole=KING")
    assert reply.remark == "broker_role = 'KING': expected ASYNC_MASTER, SYNC_MASTER or SLAVE"


def test_bytes_that_are_no_text_are_a_system_error(talk: TalkingBroker) -> None:
    assert talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"\xff=\xfe").code == ResponseCode.SYSTEM_ERROR


def test_a_change_that_fails_to_save_is_rolled_back(talk: TalkingBroker) -> None:
    path = pathlib.Path(talk.broker.settings.source.source)
    path.with_name(f"{path.name}.tmp").mkdir()
    reply = talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=4")
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "the change is not saved: Is a directory")
    assert talk.broker.config.broker_permission == 6
    assert not talk.broker.errors.counts


def test_an_empty_change_succeeds(talk: TalkingBroker) -> None:
    assert change(talk, "") == ResponseCode.SUCCESS


def test_a_new_permission_is_registered_with_a_new_version_of_the_topics(talk: TalkingBroker) -> None:
    """broker-requests section 6.5."""
    before = talk.broker.topics.data_version
    change(talk, "brokerPermission=4")
    assert talk.registration.calls == [(None, False)]
    assert talk.registration.config.broker_permission == 4
    versions = [before, talk.broker.topics.data_version]
    change(talk, "brokerPermission=4")
    versions.append(talk.broker.topics.data_version)
    assert [version.counter - before.counter for version in versions] == [0, 1, 2]
    assert talk.registration.calls == [(None, False)] * 2


def test_a_new_permission_is_confirmed_once_the_nameservers_have_it(talk: TalkingBroker) -> None:
    """AdminBrokerProcessor.updateBrokerConfig waits for registerBrokerAll."""
    talk.registration.is_slow = True
    assert talk.exchange(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=4") == []
    (confirm,) = talk.registration.pending
    confirm()
    assert [reply.code for reply in talk.peer.replies] == [ResponseCode.SUCCESS]


def test_unknown_settings_of_a_file_are_shown_and_can_be_changed(talk: TalkingBroker, tmp_path: pathlib.Path) -> None:
    """BrokerStartup registers all properties of its file with Configuration."""
    path = tmp_path / "broker.conf"
    path.write_text("teamName=shop\nbrokerName=b\n")
    talk.broker.settings = load_config(path)
    assert change(talk, "teamName=books\nnoSuchKey=1") == ResponseCode.SUCCESS
    assert shown(talk)["teamName"] == "books"
    assert "noSuchKey" not in shown(talk)
    assert parse_properties_text(path.read_text()) == {"teamName": "books", "brokerName": "b"}
    assert change(talk, "teamName=a\\nb") == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("key", ["enableBatchPush", "isEnableBatchPush"])
def test_a_setting_is_read_by_both_of_rocketmqs_names(talk: TalkingBroker, tmp_path: pathlib.Path, key: str) -> None:
    """MessageStoreConfig.setEnableBatchPush sets isEnableBatchPush."""
    path = tmp_path / "broker.conf"
    path.write_text(f"{key}=true\n")
    talk.broker.settings = load_config(path)
    assert shown(talk)["isEnableBatchPush"] == "true"
    assert change(talk, f"{key}=false") == ResponseCode.SUCCESS
    assert shown(talk)["isEnableBatchPush"] == "false"
    assert parse_properties_text(path.read_text()) == {"enableBatchPush": "false"}


def test_a_properties_file_keeps_its_format_and_unknown_settings(talk: TalkingBroker) -> None:
    import pathlib

    root = pathlib.Path(talk.broker.settings.source.source).parent
    path = root / "broker.conf"
    path.write_text("brokerName=b\nsendMessageThreadPoolNums=16\nlongPollingEnable=false\n")
    settings = load_config(path).changed({"regionId": "x", "longPollingEnable": "true"})
    settings.save()
    assert parse_properties_text(path.read_text()) == {
        "brokerName": "b", "sendMessageThreadPoolNums": "16", "longPollingEnable": "true", "regionId": "x",
    }  # fmt: skip


@pytest.mark.parametrize(("levels", "sent", "stored"), [("1s 2s", "3", 3), ("1s " * 20, "20", 18)])
def test_levels_that_a_request_changes_count_from_the_next_start_on(
    talk: TalkingBroker, levels: str, sent: str, stored: int
) -> None:
    """ScheduleMessageService.load: queues of further levels are not delivered."""
    assert change(talk, f"messageDelayLevel={levels.strip()}") == ResponseCode.SUCCESS
    talk.send("orders", DELAY=sent)
    assert talk.broker.store.max_queue_offset(names.SCHEDULE_TOPIC, stored - 1) == 1


@pytest.mark.parametrize(("limit", "expected"), [("500", [0, 13]), ("10", [13, 13]), ("9", [0, 0])])
def test_a_new_size_of_messages_counts_at_once(talk: TalkingBroker, limit: str, expected: list[int]) -> None:
    """CommitLog.updateMaxMessageSize. The real broker ignores less than 10 bytes, too."""
    assert change(talk, f"maxMessageSize={limit}") == ResponseCode.SUCCESS
    assert [talk.send("orders", body=bytes(size)).code for size in (500, 501)] == expected
    assert change(talk, "maxMessageSize=600") == ResponseCode.SUCCESS
    assert talk.send("orders", body=bytes(501)).code == ResponseCode.SUCCESS


def test_records_and_ids_keep_the_address_of_the_start(talk: TalkingBroker) -> None:
    """AbstractSendMessageProcessor.storeHost; the registration has the new one."""
    assert change(talk, "brokerIP1=10.0.0.9\nlistenPort=12345") == ResponseCode.SUCCESS
    reply = talk.send("orders")
    assert parse_offset_message_id(reply.ext_fields["msgId"])[:2] == ("127.0.0.1", 10911)
    (record,) = talk.broker.store.get_message("orders", 0, 0, 1).buffers
    assert decode_message(record).store_host == ("127.0.0.1", 10911)
