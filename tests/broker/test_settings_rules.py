"""Broker settings: ranges, fixed paths, and rejected harmful ones (issue 12.1)."""

import pathlib
from typing import Any

import attrs
import pytest

from rmqlab.broker.config import KINDS, load_config
from rmqlab.broker.ignored_settings import REFUSED
from rmqlab.runtime.config.settings import SettingsError, camel, forbidden_keys, setting_fields

NUMBERS = [field for field in setting_fields(*KINDS).values() if field.type in (int, float, int | None)]
CLAMPED = {"disk_max_used_space_ratio"}  # to 10 to 95, as in RocketMQ
PERIODS = (
    "flush_consumer_offset_interval", "flush_delay_offset_interval", "transaction_check_interval",
    "flush_interval_commit_log", "flush_interval_consume_queue", "clean_resource_interval",
    "ha_send_heartbeat_interval", "ha_housekeeping_interval",
)  # fmt: skip


def load(directory: pathlib.Path, text: str) -> Any:
    path = directory / "broker.toml"
    path.write_text(text)
    return load_config(path)


@pytest.mark.parametrize("name", sorted({field.name for field in NUMBERS} - CLAMPED))
@pytest.mark.parametrize("value", [-(2**63) - 1, 2**63, 10**400])
def test_every_number_has_a_range(tmp_path: pathlib.Path, name: str, value: int) -> None:
    with pytest.raises(SettingsError, match=f"{name} = "):
        load(tmp_path, f"{name} = {value}")


@pytest.mark.parametrize("name", PERIODS)
@pytest.mark.parametrize("value", [0, -5])
def test_a_loop_sleeps(tmp_path: pathlib.Path, name: str, value: int) -> None:
    with pytest.raises(SettingsError, match=f"{name} = {value}: expected 1 to"):
        load(tmp_path, f"{name} = {value}")
    with pytest.raises(SettingsError, match=f"{name} = {value}: expected 1 to"):
        load(tmp_path, "").changed({camel(name): str(value)})


@pytest.mark.parametrize(
    "text",
    [
        "server_channel_max_idle_time_seconds = 0",
        "server_channel_max_idle_time_seconds = -1",
        "register_name_server_period = -1",
        "file_reserved_time = 0",
        "max_transfer_count_on_message_in_memory = 0",
        "short_polling_time_mills = 0",
        "wait_time_mills_in_send_queue = 0",
        "sync_flush_timeout = 0",
        "disk_max_used_space_ratio = 0",
        'ha_master_address = "none"',
        'message_delay_level = "0s 36500d"',
        'listen_address = ""',
        'listen_address = "::"',
        'broker_ip2 = "broker-a.example"',
        "listen_port = 1\nfast_listen_port = 0",
    ],
)
def test_settings_accepted_by_4_9_8_are_valid(tmp_path: pathlib.Path, text: str) -> None:
    assert load(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen_port = 2", "the VIP port is 2 below"),
        ("listen_port = 65535", "the HA port is 1 above"),
        ("fast_listen_port = 65536", "expected 0 to 65535"),
        ("ha_listen_port = -1", "expected 0 to 65535"),
        ('namesrv_addr = "127.0.0.1:99999"', "is not host:port"),
        ('namesrv_addr = "127.0.0.1:²"', "is not host:port"),
        ('ha_master_address = "elsewhere"', "expected host:port"),
        ('broker_ip1 = "broker-a"', "expected an IP address"),
        ('listen_address = "a..b"', "expected an IP address or a host name"),
        ('broker_name = "../x"', "without /"),
        ('broker_name = ""', "expected a name"),
        ('broker_cluster_name = ".."', "without /"),
        ('msg_trace_topic_name = "a/b"', "without /"),
        (f'broker_name = "{"é" * 121}"', "1 to 240 bytes"),
        ('message_delay_level = ""', "expected 1 to 100 times"),
        (f'message_delay_level = "{"1s " * 101}"', "expected 1 to 100 times"),
        ('message_delay_level = "9999999d"', "is no time"),
        ("disk_space_warning_level_ratio = 101", "expected 0 to 100"),
        ("default_topic_queue_nums = 32769", "expected 1 to 32768"),
        ("max_transfer_bytes_on_message_in_memory = 67108865", "expected 0 to 67108864"),
        ("max_msgs_num_batch = 10001", "expected 0 to 10000"),
        ("server_worker_threads = 9223372036854775808", "server_worker_threads = "),
        ('region_id = "a\\nb"', "expected one line without control characters"),
        ('store_path_root_dir = "/x\\ny"', "expected one line without control characters"),
        ('d_leger_group = "a\\u001bb"', "expected one line without control characters"),
        ('dleger_group = "a"', "unknown key dleger_group; did you mean d_leger_group?"),
        (
            'nonsense = "a"',
            "unknown key nonsense; RocketMQ's settings files have no similar key; an example of one: listen_port",
        ),
    ],
)
def test_invalid_broker_settings_are_named(tmp_path: pathlib.Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broker.toml", 'read_only_commit_log_store_paths = "/a,/b"'),
        ("broker.conf", "readOnlyCommitLogStorePaths=/a"),
    ],
)
def test_settings_unsafe_to_ignore_are_rejected_at_the_start(tmp_path: pathlib.Path, name: str, text: str) -> None:
    """Messages would be missing."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SettingsError, match="is not supported") as raised:
        load_config(path)
    assert "\n" not in str(raised.value)


def test_the_same_default_is_no_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("enableDLegerCommitLog=false\nreadOnlyCommitLogStorePaths=\ndLegerGroup=g\n")
    assert load_config(path).dledger.d_leger_group == "g"
    assert set(REFUSED) <= set(setting_fields(*KINDS))


PEERS = "n0-127.0.0.1:40911;n1-127.0.0.1:40912;n2-127.0.0.1:40913"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"dLegerGroup": " "}, "d_leger_group is empty"),
        ({"dLegerSelfId": "leader"}, "d_leger_self_id = 'leader': expected a letter and a number"),
        ({"dLegerSelfId": "n3"}, "n3 is not among the peers n0, n1, n2"),
        ({"dLegerPeers": PEERS.partition(";")[2]}, "n0 is not among the peers n1, n2"),
        ({"dLegerPeers": PEERS + ";n3-127.0.0.1:40914"}, "d_leger_peers has 4 members: expected an odd number"),
        ({"dLegerPeers": PEERS + ";n2-127.0.0.1:40914"}, "peer n2 is listed twice"),
        ({"dLegerPeers": "n0=127.0.0.1:40911"}, "expected ID-HOST:PORT"),
        ({"dLegerPeers": "n0-127.0.0.1"}, "n0 has the address '127.0.0.1': expected HOST:PORT"),
        ({"preferredLeaderId": "n7"}, "preferred_leader_id: n7 is not among the members n0, n1, n2"),
    ],
)
def test_settings_that_describe_no_group_are_refused(
    tmp_path: pathlib.Path, changes: dict[str, str], expected: str
) -> None:
    """Issue 16, bad input: one line that names what is wrong."""
    values = {"enableDLegerCommitLog": "true", "dLegerGroup": "g", "dLegerPeers": PEERS, "dLegerSelfId": "n0"}
    path = tmp_path / "broker.conf"
    path.write_text("".join(f"{key}={value}\n" for key, value in (values | changes).items()))
    with pytest.raises(SettingsError) as raised:
        load_config(path)
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_member_begins_as_slave_with_the_id_of_its_number(tmp_path: pathlib.Path) -> None:
    """dledger#52"""
    path = tmp_path / "broker.conf"
    path.write_text(f"enableDLegerCommitLog=true\ndLegerGroup=g\ndLegerPeers={PEERS}\ndLegerSelfId=n2\n")
    config = load_config(path).broker
    assert (config.broker_role, config.broker_id) == ("SLAVE", 3)


def test_no_request_may_change_where_files_lie() -> None:
    where = {key for key in setting_fields(*KINDS) if "path" in key.lower() or "home" in key.lower()}
    assert {"storePathRootDir", "storePathCommitLog", "rocketmqHome", "storePathDLedgerCommitLog"} <= where
    of_group = {"enableDLegerCommitLog", "dLegerGroup", "dLegerPeers", "dLegerSelfId", "dlegerAckAfterSync"}
    assert set(forbidden_keys(setting_fields(*KINDS), KINDS)) == where | of_group | {"messageStorePlugIn"}


def test_every_path_is_a_fixed_one() -> None:
    fields = [field for kind in KINDS for field in attrs.fields(kind)]
    assert all(field.metadata["is_fixed"] for field in fields if field.type is pathlib.Path)
