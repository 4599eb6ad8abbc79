"""The command `rmqlab plant`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.plant.kinds import KINDS
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from tests.cluster.plant.smallrun import made_up_run, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(made_up_run(), tmp_path / "run")


def plant(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["plant", *map(str, arguments)], prog_name="rmqlab")


def test_it_prints_what_was_changed_and_what_a_judge_must_report(run: Path) -> None:
    done = plant(run, "zeroed-one", "--at", "broker-a-s", "--seed", "3")
    assert done.exit_code == 0, done.output
    assert f"copy: {run}-zeroed-one-3" in done.stdout
    assert "broker-a-s: broker-a-s/store/commitlog/00000000000000000000 at byte " in done.stdout
    assert "a judge must report missing broker-a-s: ID0000" in done.stdout
    assert (run.parent / "run-zeroed-one-3" / "journal").is_dir()


def test_json_has_the_same(run: Path, tmp_path: Path) -> None:
    document = json.loads(plant(run, "ack-forged", "--out", tmp_path / "copy", "--json").stdout)
    assert (document["kind"], document["seed"], document["directory"]) == ("ack-forged", 1, str(tmp_path / "copy"))
    assert [edit["file"] for edit in document["edits"]] == ["journal/produce-1.msgpack"]
    assert document["must_report"][0] == {"metric": "lost", "unknown": False, "message_ids": document["message_ids"]}


def test_without_a_kind_all_kinds_are_listed(run: Path) -> None:
    assert [line.split()[0] for line in plant(run).stdout.splitlines()] == list(KINDS)
    assert [kind["kind"] for kind in json.loads(plant(run, "--json").stdout)] == list(KINDS)


def test_invalid_plants_are_reported_in_one_line(run: Path, tmp_path: Path) -> None:
    for arguments, status, text in (
        ((run, "zeroed"), 2, "unknown kind zeroed; did you mean zeroed-one"),
        ((run, "zeroed-one", "--at", "namesrv-1"), 1, "namesrv-1 is no place for it"),
        ((run, "zeroed-one", "--out", tmp_path), 2, f"{tmp_path} exists already; --out DIRECTORY"),
        ((tmp_path / "none", "zeroed-one"), 2, "there is no directory"),
        ((tmp_path / "none",), 2, "there is no directory"),
        (("no-such-run",), 2, "no cluster and no scenario that was run is called no-such-run"),
        ((run, "--at", "broker-a"), 2, f"--at needs a KIND; rmqlab plant {run} lists the kinds"),
    ):
        done = plant(*arguments)
        assert (done.exit_code, done.stdout) == (status, ""), done.output
        assert text in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_cluster_that_is_up_is_not_copied(run: Path) -> None:
    with ClusterDirectory.at(run).locked():
        done = plant(run, "zeroed-one")
    assert done.exit_code == 1
    assert "is up" in done.stderr


def test_help_does_not_list_it() -> None:
    assert " plant " not in CliRunner().invoke(app, ["--help"]).stdout
