"""The rules for settings from any source (issue 12.1)."""

import pathlib

import attrs
import pytest

from rmqlab.remoting.properties import parse_properties_text
from rmqlab.runtime.config.settings import (
    LARGEST_CHANGE,
    SettingsError,
    change_settings,
    forbidden_keys,
    parse_change,
    read_settings,
    settings_text,
)
from rmqlab.runtime.config.validators import FIXED, one_line_texts, within


@attrs.frozen(kw_only=True, field_transformer=one_line_texts)
class Some:
    store_path: pathlib.Path = attrs.field(default=pathlib.Path("/x"), converter=pathlib.Path, metadata=FIXED)
    broker_ip1: str = ""
    count: int = attrs.field(default=1, validator=within(0, 9))
    rate: float = attrs.field(default=1.0, validator=within(0, 9))
    is_on: bool = False


SPELLINGS = (
    "store_path",
    "StorePath",
    "STOREPATH",
    " storePath",
    "store-path",
    "storePath ",
    "\uff53torePath",
    "store.path",
)


@pytest.mark.parametrize("key", [*SPELLINGS, "storePath"])
def test_no_spelling_of_a_path_may_be_changed(key: str) -> None:
    assert forbidden_keys([key, "count"], [Some]) == [key]


def test_lists_are_compared_in_the_same_way() -> None:
    assert forbidden_keys(["is_on", "count", "brokerIp1"], [Some], "isOn", "", "brokerIP1") == ["brokerIp1", "is_on"]


@pytest.mark.parametrize("key", [*SPELLINGS, "broker_ip1", "Count", "brokerIp1"])
@pytest.mark.parametrize("name", ["x.properties", "x.conf"])
def test_another_spelling_reaches_no_field_of_a_properties_file(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, name: str, key: str
) -> None:
    path = tmp_path / name
    path.write_text(f"{key.replace(' ', chr(92) + ' ')}=7\nisOn=true\n")
    settings = read_settings(path, [Some])
    assert (settings.values, settings.unknown) == ({"is_on": "true"}, {key: "7"})
    assert "did you mean" in caplog.text
    assert change_settings(Some(), {key: "7"}) == (Some(), {})


@pytest.mark.parametrize("text", ["1_0", "٣", "0x1", "", "1.0", "9" * 5000, "true"])
def test_a_whole_number_is_written_as_java_reads_it(text: str) -> None:
    with pytest.raises(SettingsError, match="count = "):
        change_settings(Some(), {"count": text})


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e999", "many"])
def test_a_number_is_in_its_range(text: str) -> None:
    with pytest.raises(SettingsError, match=r"rate = .*expected"):
        change_settings(Some(), {"rate": text})


@pytest.mark.parametrize("text", ["broker_ip1 = [1]", "broker_ip1 = 2020-01-01", "store_path = {}", "rate = true"])
def test_a_toml_value_of_another_type_is_refused(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"x\.toml: .*expected"):
        read_settings(path, [Some]).bind(Some)


@pytest.mark.parametrize("text", [f"count = {'9' * 5000}", "count = " + "[" * 100_000, 'broker_ip1 = "\\ud800"'])
def test_a_toml_file_that_python_cannot_read_is_an_error_of_one_line(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"x\.toml: not TOML") as raised:
        read_settings(path, [Some])
    assert "\n" not in str(raised.value)


def test_a_huge_number_in_another_base_is_out_of_range(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f"count = 0x{'f' * 5000}")
    with pytest.raises(SettingsError, match="count = a number of several thousand digits: expected 0 to 9"):
        read_settings(path, [Some]).bind(Some)


@pytest.mark.parametrize("name", ["x.toml", "x.conf", "x.properties", "x.cfg"])
@pytest.mark.parametrize("value", ["a\\", "\\u000acount=5", " a", "#x", "\U0001f600", 'a"b', "a=b", "a:b"])
def test_a_changed_text_is_read_back_as_it_is(tmp_path: pathlib.Path, name: str, value: str) -> None:
    path = tmp_path / name
    path.write_text("# empty\n")
    settings = read_settings(path, [Some])
    changed, values = change_settings(settings.bind(Some), {"brokerIP1": value})
    path.write_text(settings_text(attrs.evolve(settings, values=values)))
    assert read_settings(path, [Some]).bind(Some) == changed == Some(broker_ip1=value)


@pytest.mark.parametrize("text", ["a\\nb", "a\\u000ab", "a\\rb", "a\\u0000", "\\u2028"])
def test_a_changed_text_that_is_no_line_is_refused(text: str) -> None:
    changes = parse_properties_text(f"brokerIP1={text}")
    with pytest.raises(SettingsError, match=r"broker_ip1 = .*expected one line"):
        change_settings(Some(), changes)


def test_unknown_keys_of_a_file_that_are_no_line_are_dropped(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.conf"
    path.write_text("a\\nb=1\nc=d\\ne\nours=x\\\\\n")
    assert read_settings(path, [Some]).unknown == {"ours": "x\\"}


def test_a_change_has_a_limit() -> None:
    assert parse_change(b"#" * LARGEST_CHANGE) == {}
    with pytest.raises(SettingsError, match="expected at most 131072"):
        parse_change(b"#" * (LARGEST_CHANGE + 1))
