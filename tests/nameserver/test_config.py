"""Settings of a nameserver."""

import pathlib

import pytest

from rmqlab.nameserver.config import NameserverConfig, config_text, is_black_listed, load_config, updated_config
from rmqlab.runtime.config.settings import SettingsError


def test_defaults_are_those_of_rocketmq() -> None:
    """Section 3.3."""
    lines = dict(line.split("=", 1) for line in config_text(NameserverConfig()).splitlines())
    expected = """
        listenPort=9876 serverWorkerThreads=8 serverSelectorThreads=3 serverOnewaySemaphoreValue=256
        serverAsyncSemaphoreValue=64 serverChannelMaxIdleTimeSeconds=120 serverSocketBacklog=1024 clusterTest=false
        orderMessageEnable=false productEnvName=center serverCallbackExecutorThreads=0 serverSocketSndBufSize=0
        serverSocketRcvBufSize=0 writeBufferHighWaterMark=0 writeBufferLowWaterMark=0
        serverPooledByteBufAllocatorEnable=true useEpollNativeSelector=false
    """
    for key, value in (line.split("=") for line in expected.split()):
        assert lines[key] == value
    assert lines["kvConfigPath"] == str(pathlib.Path.home() / "namesrv" / "kvConfig.json")
    assert {"rocketmqHome", "configStorePath", "configBlackList"} <= lines.keys()


def test_a_toml_file_uses_our_names(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ns.toml"
    path.write_text('listen_address = "127.0.0.9"\nlisten_port = 0\norder_message_enable = true\nbroker_expiry = 12\n')
    config = load_config(path)
    assert (config.listen_address, config.listen_port, config.order_message_enable) == ("127.0.0.9", 0, True)
    assert config.broker_expiry == 12.0
    assert config.config_store_path == NameserverConfig().config_store_path


@pytest.mark.parametrize("name", ["namesrv.properties", "namesrv.conf"])
def test_a_properties_file_written_for_rocketmq_is_taken_and_is_where_updates_are_stored(
    tmp_path: pathlib.Path, name: str
) -> None:
    """remoting#39: unknown keys are skipped and reported."""
    path = tmp_path / name
    path.write_text("# mine\nlistenPort=26876\norderMessageEnable = true\nkvConfigPath=/x/kv.json\nourTeam=a team\n")
    config = load_config(str(path))
    assert (config.listen_port, config.order_message_enable, config.kv_config_path) == (26876, True, "/x/kv.json")
    assert config.config_store_path == str(path)
    assert "ourTeam=a team\n" in config_text(config)
    assert "ourTeam=others\n" in config_text(updated_config(config, {"ourTeam": "others", "theirs": "1"}))


def test_a_warning_names_settings_that_have_no_effect_here(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Classes NamesrvController, NamesrvConfig and NettyServerConfig of 4.9.8."""
    path = tmp_path / "namesrv.properties"
    path.write_text("clusterTest=true\nproductEnvName=center\nserverWorkerThreads=16\nlistenPort=26876\n")
    load_config(path)
    assert f"{path}: no effect here: cluster_test, server_worker_threads" in caplog.messages


def test_stored_settings_are_read_back_as_they_were(tmp_path: pathlib.Path) -> None:
    """remoting#39."""
    path = tmp_path / "namesrv.properties"
    path.write_text("listenPort=26876\nourTeam=a team\n")
    config = updated_config(load_config(path), {"orderMessageEnable": "true"})
    path.write_text(config_text(config))
    assert load_config(path) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listen_prot = 1", r"ns\.toml: unknown key listen_prot; did you mean listen_port\?"),
        ('listen_port = "many"', r"ns\.toml: listen_port = 'many': expected a whole number"),
        ("listen_port = 70000", r"ns\.toml: .*listen_port"),
        ("order_message_enable = 3", r"ns\.toml: order_message_enable = 3: expected true or false"),
        ("scan_period = 0", r"ns\.toml: .*scan_period"),
        ("listen_port", r"ns\.toml: not TOML"),
    ],
)
def test_a_mistake_is_named_with_file_key_and_what_was_expected(
    tmp_path: pathlib.Path, text: str, message: str
) -> None:
    path = tmp_path / "ns.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_config(path)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(SettingsError, match=r"/no/such/ns\.toml"):
        load_config("/no/such/ns.toml")


def test_four_settings_are_black_listed_whatever_the_setting_says() -> None:
    """remoting#39."""
    config = NameserverConfig(config_black_list="")
    for key in ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"):
        assert is_black_listed(config, {key: "x"})
    assert not is_black_listed(config, {"listenPort": "1"})
