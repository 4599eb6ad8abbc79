"""Files that contradict the supervisor's journal, or name processes it lacks."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.conditions import read_conditions
from rmqlab.verdict.contradictions import start_contradictions, unnamed_processes
from rmqlab.verdict.metrics import Source
from rmqlab.verdict.runrecord import NO_RECORD, RunRecord, read_record

SPEC = {"role": "SYNC_MASTER", "profile": "4.9", "rate": 10.0, "broker_settings": {"profile": "hardened"}}
PLACEMENT = {"network": "127.77", "subnet": 4, "slots": {"namesrv-1": 1, "broker-a": 20, "broker-b": 22}}
STARTING = {"role": "SYNC_MASTER", "profile": "hardened", "rate": 10.0}


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    document = {"run": "a1", "spec": SPEC, "placement": PLACEMENT}
    (tmp_path / "cluster.json").write_text(json.dumps(document))
    for name, role, broker_id in (("broker-a", "SYNC_MASTER", 0), ("broker-a-s", "SLAVE", 1)):
        (tmp_path / name).mkdir()
        text = f'broker_name = "broker-a"\nbroker_role = "{role}"\nbroker_id = {broker_id}\nprofile = "hardened"\n'
        (tmp_path / name / "config.toml").write_text(text)
    (tmp_path / "produce-1").mkdir()
    (tmp_path / "produce-1" / "node.log").touch()
    return read_record(tmp_path)


def entry(node: str, kind: str, **fields: Any) -> JournalEntry:
    return JournalEntry(5, node, kind, fields)


def start_gaps(record: RunRecord, *entries: JournalEntry) -> list[str]:
    return [gap.text for gap in read_conditions(entries, [], record).gaps if "cluster_starting" in gap.text]


def test_what_the_supervisor_recorded_is_no_contradiction(record: RunRecord) -> None:
    assert (record.run, record.role, record.profile, record.rate) == ("a1", "SYNC_MASTER", "hardened", 10.0)
    assert list(start_contradictions(STARTING, record)) == []
    assert list(start_contradictions({}, record)) == []
    assert list(start_contradictions(STARTING, NO_RECORD)) == []


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({"role": "ASYNC_MASTER"}, ["cluster.json has SYNC_MASTER", "config.toml of brokers has SYNC_MASTER"]),
        ({"profile": "4.9"}, ["cluster.json has hardened", "config.toml of brokers has hardened"]),
        ({"rate": 1.0}, ["rate 1.0, and cluster.json has 10.0"]),
    ],
)
def test_another_start_than_that_of_other_files_is_a_gap(
    record: RunRecord, changed: dict[str, Any], lines: list[str]
) -> None:
    (gap,) = start_contradictions(STARTING | changed, record)
    assert gap.process == "cluster"
    assert all(line in gap.text for line in lines)


@pytest.mark.usefixtures("record")
def test_without_cluster_json_the_settings_of_brokers_are_evidence(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").unlink()
    (gap,) = start_contradictions(STARTING | {"profile": "4.9"}, read_record(tmp_path))
    assert "config.toml of brokers has hardened" in gap.text


@pytest.mark.parametrize("own", [{"broker-a:master": {"profile": 4.9}}, {"broker-a-s": {"profile": "4.9"}}])
def test_a_profile_that_a_restart_may_have_changed_is_no_contradiction(tmp_path: Path, own: dict[str, Any]) -> None:
    """`restart --set profile=4.9` of all brokers made each later verdict `unknown`."""
    (tmp_path / "broker-a").mkdir()
    text = 'broker_name = "broker-a"\nbroker_id = 0\nbroker_role = "SYNC_MASTER"\nprofile = 4.9\n'
    (tmp_path / "broker-a" / "config.toml").write_text(text)
    (tmp_path / "cluster.json").write_text(json.dumps({"spec": SPEC | {"node_settings": own}}))
    assert start_gaps(read_record(tmp_path), entry("", "cluster_starting", **STARTING)) == []


@pytest.mark.usefixtures("record")
def test_without_cluster_json_a_restart_may_have_changed_the_profile(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").unlink()
    starting = entry("", "cluster_starting", **STARTING | {"profile": "4.9"})
    ready = entry("broker-a", "node_ready", broker_name="broker-a")
    assert start_gaps(read_record(tmp_path), starting, ready) != []
    assert start_gaps(read_record(tmp_path), starting, ready, ready) == []


def test_a_role_that_a_request_changed_is_no_contradiction(record: RunRecord) -> None:
    """`rmqlab config set broker-a brokerRole=SYNC_MASTER` made the verdict `unknown`."""
    own = {name: {**one, "broker_role": "ASYNC_MASTER"} for name, one in record.settings.items()}
    changed = attrs.evolve(record, settings=own)
    starting = entry("", "cluster_starting", **STARTING)
    request = entry("broker-a", "settings_changed", changes={"brokerRole": "ASYNC_MASTER"}, peer="p")

    assert start_gaps(changed, starting, request) == []
    (text,) = start_gaps(changed, starting, entry("broker-a", "settings_changed", changes={"profile": "4.9"}, peer="p"))
    assert "config.toml of brokers has ASYNC_MASTER" in text


@pytest.mark.parametrize("value", [[1], {}, 5, "x"])
def test_a_damaged_start_is_a_contradiction_and_no_error(record: RunRecord, value: object) -> None:
    (gap,) = start_contradictions({"role": value, "profile": value, "rate": value}, record)
    assert f"role {value}, and cluster.json has SYNC_MASTER" in gap.text


@pytest.mark.parametrize("text", ["", "[]", '{"spec": 5, "placement": [1]}', '{"spec": {"role": 5, "rate": "x"}}'])
def test_a_damaged_record_has_no_facts(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    assert read_record(tmp_path) == NO_RECORD


def test_a_client_at_a_workloads_address_that_was_never_started_is_a_gap(record: RunRecord) -> None:
    joined = entry("broker-a", "producer_joined", group="till", client_id="127.77.4.240@17#1")
    assert list(unnamed_processes([entry("produce-1", "node_spawned", pid=17), joined], record)) == []
    (gap,) = unnamed_processes([entry("broker-a", "node_spawned", pid=3), joined], record)
    assert gap.sources == {Source.PRODUCERS, Source.SUPERVISOR}
    assert "127.77.4.240@17#1 of group till" in gap.text
    assert "produce-1" in gap.text
    assert read_conditions([joined], [], record).outside_clients == ()


def test_a_client_at_another_address_is_from_outside(record: RunRecord) -> None:
    joined = entry("broker-a", "producer_joined", group="till", client_id="10.0.0.9@17#1")
    assert list(unnamed_processes([joined], record)) == []
    assert read_conditions([joined], [], record).outside_clients == ("10.0.0.9@17#1 of group till",)


def test_a_registered_broker_of_the_cluster_that_was_never_started_is_a_gap(record: RunRecord) -> None:
    registered = entry("namesrv-1", "broker_registered", broker_name="broker-b", address="127.77.4.22:10911")
    foreign = entry("namesrv-1", "broker_registered", broker_name="broker-x", address="127.77.4.99:10911")
    assert list(unnamed_processes([entry("broker-b", "node_ready"), registered, foreign], record)) == []
    (gap,) = unnamed_processes([registered, foreign], record)
    assert "nameservers registered broker-b (127.77.4.22:10911), and" in gap.text
    assert Source.BROKERS in gap.sources
