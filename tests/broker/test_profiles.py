"""Profiles turn all switches on at once, and docs/switches.md lists every switch."""

import pathlib
import re

import pytest

from rmqlab.broker.config import load_config
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.profiles import PROFILES
from rmqlab.cluster.supervisor.plan import topology
from rmqlab.runtime.config.settings import camel, settings_lines

HARDENED = PROFILES["hardened"]
SWITCHES_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "switches.md"


def test_every_switch_is_off_unless_it_is_set(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("")
    assert set(_switches(path).values()) == {"false", "0"}


def test_the_profile_turns_all_switches_on_and_a_key_set_by_hand_wins(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('profile = "hardened"')
    hardened = _switches(path)
    assert hardened == {name: str(value).lower() for name, value in HARDENED.items()}
    path.write_text('profile = "hardened"\nin_sync_replicas = 3\nha_drop_silent_master = false')
    assert _switches(path) == {**hardened, "in_sync_replicas": "3", "ha_drop_silent_master": "false"}


def test_the_profile_of_a_properties_file_counts_too(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("profile=hardened\nhaDropSilentMaster=false\n")
    assert _switches(path)["ha_report_at_once"] == "true"
    assert _switches(path)["ha_drop_silent_master"] == "false"


def test_an_unknown_profile_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('profile = "softened"')
    with pytest.raises(Exception, match=r"expected 4\.9 or hardened"):
        load_config(path)


def test_the_profile_can_be_changed_at_run_time_and_the_file_keeps_what_was_said(tmp_path: pathlib.Path) -> None:
    """Request 25. The file gets the profile's name, not its settings."""
    path = tmp_path / "broker.toml"
    path.write_text("ha_drop_silent_master = false\n")
    changed = load_config(path).changed({"profile": "hardened"})
    assert (changed.ha.in_sync_replicas, changed.ha.ha_drop_silent_master) == (2, False)
    changed.save()
    assert path.read_text() == 'ha_drop_silent_master = false\nprofile = "hardened"\n'
    assert changed.changed({"profile": "4.9"}).ha == HaSettings()


def test_the_lab_has_the_same_profiles() -> None:
    assert tuple(PROFILES) == topology.PROFILES


def test_the_page_of_switches_has_a_row_for_every_switch_and_for_no_other() -> None:
    page = SWITCHES_PAGE.read_text("utf-8")
    keys = [key for row in re.findall(r"^\|([^|]*)\|", page, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)]
    assert sorted(keys) == sorted(HARDENED)


def _switches(path: pathlib.Path) -> dict[str, str]:
    loaded = load_config(path)
    lines = settings_lines(loaded.broker, loaded.ha, loaded.dledger)
    return {name: lines[camel(name)] for name in HARDENED}
