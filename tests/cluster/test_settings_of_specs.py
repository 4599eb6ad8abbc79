"""Validation of broker settings from the Python API (issue 12.13).

It runs before anything starts.
"""

import math
import os
import pathlib
import sys
from typing import Any, cast

import pytest

from rmqlab.cluster.blocking import BlockingCluster
from rmqlab.cluster.cli.settings import parse_setting
from rmqlab.cluster.lab import open_cluster
from rmqlab.cluster.pytest_plugin import _place, _settings_named
from rmqlab.cluster.supervisor import check_settings
from rmqlab.cluster.supervisor.check_settings import BadSettingsError, try_settings
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.cluster.supervisor.serve import UP_FAILURES

BAD = [
    ({"flush_disk_typ": "SYNC_FLUSH"}, r"unknown key flush_disk_typ; did you mean flush_disk_type\?"),
    ({"flushDiskType": "SYNC_FLUSH"}, r"unknown key flushDiskType; did you mean flush_disk_type\?"),
    ({"slave_timeout": "soon"}, r"slave_timeout = 'soon': expected a whole number"),
    ({"flush_consumer_offset_interval": -5}, r"flush_consumer_offset_interval = -5: expected 1 to"),
    ({"enable_dleger_commit_log": True}, r"enable_dleger_commit_log: each node has its own; say --mode dledger"),
    ({"store_path_commit_log": "/x"}, r"store_path_commit_log: each node has its own, in the cluster's directory"),
    ({"store_path_root_dir": "/x"}, r"store_path_root_dir: each node has its own, in the cluster's directory"),
]


@pytest.mark.parametrize(("settings", "said"), BAD)
async def test_a_mistake_is_named_before_anything_starts(
    tmp_path: pathlib.Path, settings: dict[str, Any], said: str
) -> None:
    place = tmp_path / "lab"
    with pytest.raises(BadSettingsError, match=f"^broker_settings: .*{said}") as raised:
        async with open_cluster(ClusterSpec(name="x", broker_settings=settings), directory=place):
            pass
    assert isinstance(raised.value, UP_FAILURES)
    assert "\n" not in str(raised.value)
    assert {path.name for path in place.iterdir()} <= {"forkserver.log", "supervisor.lock"}


def test_a_fixture_says_the_same(tmp_path: pathlib.Path) -> None:
    spec = ClusterSpec(name="x", broker_settings={"flush_disk_typ": "SYNC_FLUSH"})
    said = r"rmq_cluster: broker_settings: .*did you mean flush_disk_type\?"
    with (
        pytest.raises(pytest.fail.Exception, match=said) as raised,
        _settings_named(),
        BlockingCluster(spec, ClusterDirectory(tmp_path / "lab", is_lasting=False)),
    ):
        pass
    assert not raised.value.pytrace


@pytest.mark.parametrize(
    ("key", "said"), [("rolee", r"unknown key rolee; did you mean role\?"), ("zzz", "unknown key zzz; expected name, ")]
)
def test_a_misspelt_key_of_a_fixture_is_named(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, key: str, said: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=said):
        _place(request, tmp_path_factory, {key: "x"})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"region_id": None}, "region_id = None: expected text, a number"),
        ({"region_id": pathlib.Path("/x")}, "expected text, a number"),
        ({"region_id": ["x"]}, "expected text, a number"),
        ({"slave_timeout": math.inf}, "expected text, a number"),
        ({"region_id": "a\nb"}, "expected one line"),
        ({"region_id": "\ud800"}, "expected one line"),
        ({"region_id = 1\nbroker_name": "x"}, "unknown key"),
        ({"": "x"}, "unknown key ''"),
    ],
)
def test_settings_unsupported_by_a_settings_file_are_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettingsError, match=said):
        try_settings(settings)


def test_settings_without_effect_cause_a_remark() -> None:
    assert try_settings({"use_tls": True}) == ["no effect here: use_tls"]


def test_ctrl_c_in_a_terminal_is_not_taken_for_a_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal sends SIGINT to the whole group of the command's processes."""
    code = "import os, sys; sys.exit(f'group {os.getpgrp()}')"
    monkeypatch.setattr(check_settings, "module_command", lambda *_: [sys.executable, "-c", code])
    with pytest.raises(BadSettingsError, match=r"group \d+") as raised:
        try_settings({"region_id": "x"})
    assert str(raised.value) != f"group {os.getpgrp()}"


def test_settings_of_a_group_are_checked_as_those_of_its_member() -> None:
    """Issue 16, "Bad input": a DLedger setting on a plain group, and an unknown peer."""
    settings = {"preferred_leader_id": "n2", "is_enable_batch_push": True}
    assert try_settings(settings) == ["no effect here: preferred_leader_id, is_enable_batch_push"]
    assert try_settings(settings, 3) == []
    with pytest.raises(BadSettingsError, match="preferred_leader_id: n7 is not among the members n0, n1, n2"):
        try_settings({"preferred_leader_id": "n7"}, 3)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("brokerName=x", "x"),
        ("slaveTimeout=5", 5),
        ("regionId=2020-01-01", "2020-01-01"),
        ("regionId=[1]", "[1]"),
        ("regionId={a = 1}", "{a = 1}"),
        ("regionId=1\nbroker_id = 7", "1\nbroker_id = 7"),
        ("slaveTimeout=" + "9" * 5000, "9" * 5000),
        ("regionId=" + "[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_that_is_not_valid_toml_is_text(typed: str, value: object) -> None:
    assert cast("object", parse_setting(typed)[1]) == value
