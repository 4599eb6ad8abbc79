"""Hostile requests 318: only legal changes are saved, no other file changes.

Source: issue 12.1.
"""

import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqlab.nameserver.config import NameserverConfig, config_text, load_config
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.properties import parse_properties_text
from rmqlab.runtime.config.settings import SettingsError, setting_fields

Lines = list[tuple[int, int, int, str]]
Hostile = Callable[[Iterable[str], Lines], bytes]
LINES = st.lists(st.tuples(*[st.integers(0, 299)] * 3, st.text(max_size=8)), max_size=3)
FilesBelow = Callable[..., Mapping[str, bytes]]
KNOWN = setting_fields(NameserverConfig)


STORED = "kvConfigPath={0}/kvConfig.json\nours=1\nconfig_store_path={0}/other\n"


@pytest.fixture
def started(tmp_path: pathlib.Path, bench: Any) -> Any:
    """Start a nameserver with a properties file that has keys unknown to RocketMQ."""
    path = tmp_path / "mine.properties"
    path.write_text(STORED.format(tmp_path))
    bench.state.config = load_config(path)
    bench.call(RequestCode.UPDATE_NAMESRV_CONFIG, b"clusterTest=false")
    return bench


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(lines=LINES, raw=st.binary(max_size=20))
def test_only_what_was_legally_changed_is_saved(
    started: Any, tmp_path: pathlib.Path, hostile_settings: Hostile, files_below: FilesBelow, lines: Lines, raw: bytes
) -> None:
    body = hostile_settings([*KNOWN, "ours", "extraProperties"], lines) or raw
    path = tmp_path / "mine.properties"
    path.write_text(STORED.format(tmp_path))
    started.state.config = load_config(path)
    before, files = load_config(path), files_below(path.parent, path)
    reply = started.call(RequestCode.UPDATE_NAMESRV_CONFIG, body)
    after = load_config(path)
    assert files_below(path.parent, path) == files
    assert after == started.state.config
    fields = {key for key, field in KNOWN.items() if getattr(after, field.name) != getattr(before, field.name)}
    extra = {key for key, value in after.extra_properties.items() if before.extra_properties[key] != value}
    assert after.extra_properties.keys() == before.extra_properties.keys()
    asked = parse_properties_text(body.decode("utf-8", "replace"))
    assert fields | extra <= (asked.keys() if reply.code == ResponseCode.SUCCESS else set())
    assert not fields & {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
    assert len(config_text(after).splitlines()) == len(KNOWN) + len(after.extra_properties)


@pytest.mark.parametrize("key", ["config_store_path", "ConfigStorePath", "\\ configStorePath", "\\u0063onfigStorePath"])
def test_no_spelling_of_a_path_passes(started: Any, tmp_path: pathlib.Path, key: str) -> None:
    """One request wrote a file of the sender's choice, as in CVE-2023-37582."""
    reply = started.call(RequestCode.UPDATE_NAMESRV_CONFIG, f"{key}={tmp_path}/theirs\n".encode())
    assert reply.code == ResponseCode.NO_PERMISSION
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("text", ["productEnvName=a\\nkvConfigPath=/x", "ours=a\\u000dkvConfigPath=/x"])
def test_a_line_break_is_refused(started: Any, text: str) -> None:
    before = started.state.config
    assert started.call(RequestCode.UPDATE_NAMESRV_CONFIG, f"listenPort=5\n{text}".encode()).code == 1
    assert started.state.config == before


def test_a_value_out_of_range_changes_nothing_and_one_of_another_type_is_passed_over(started: Any) -> None:
    reply = started.call(RequestCode.UPDATE_NAMESRV_CONFIG, b"scanPeriod=0\norderMessageEnable=true")
    assert (reply.code, reply.remark) == (1, "scan_period = 0.0: expected 0.001 to 1000000000.0")
    assert not started.state.config.order_message_enable
    assert started.call(RequestCode.UPDATE_NAMESRV_CONFIG, b"scanPeriod=x\norderMessageEnable=true").code == 0
    assert started.state.config.order_message_enable


def test_a_body_without_bound_is_refused(started: Any) -> None:
    assert started.call(RequestCode.UPDATE_NAMESRV_CONFIG, b"a=1\n" * 50_000).code == ResponseCode.SYSTEM_ERROR


NUMBERS = [field.name for field in attrs.fields(NameserverConfig) if field.type in (int, float)]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["-2147483649", "2147483648", "1" + "0" * 400])
def test_every_number_has_a_range(tmp_path: pathlib.Path, name: str, value: str) -> None:
    path = tmp_path / "ns.toml"
    path.write_text(f"{name} = {value}")
    with pytest.raises(SettingsError, match=f"{name} = "):
        load_config(path)


@pytest.mark.parametrize("text", ["server_channel_max_idle_time_seconds = 0", 'listen_address = ""'])
def test_values_that_mean_off_or_everywhere_are_legal(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "ns.toml"
    path.write_text(text)
    assert load_config(path)


def test_no_field_that_is_no_setting_can_be_set(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ns.toml"
    path.write_text('extra_properties = {a = "b"}')
    with pytest.raises(SettingsError, match="unknown key extra_properties"):
        load_config(path)
