"""Each kind changes only what it says, equally for one seed; `check` finds it."""

import hashlib
from pathlib import Path

import pytest

from rmqlab.cluster.plant.kinds import KINDS
from rmqlab.cluster.plant.model import NothingToPlantError, Planted
from rmqlab.cluster.plant.planting import plant
from tests.planted.compare import compare, faults_of
from tests.planted.judges import check

SEEDS = (1, 2, 3)
each_kind = pytest.mark.parametrize("name", list(KINDS))


def digests(root: Path) -> dict[str, str]:
    """All files below a directory, by what they hold."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def without_place(planted: Planted) -> dict[str, object]:
    return {key: value for key, value in planted.as_json().items() if key != "directory"}


@pytest.fixture(scope="module")
def before(run: Path) -> dict[str, str]:
    return digests(run)


@each_kind
def test_a_kind_changes_the_files_that_it_names_and_no_others(
    run: Path, before: dict[str, str], tmp_path: Path, name: str
) -> None:
    for seed in SEEDS:
        planted = plant(run, KINDS[name], tmp_path / str(seed), seed=seed)
        after = digests(tmp_path / str(seed))
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        edited = {edit.file for edit in planted.change.edits}
        assert changed
        assert all(any(path == file or path.startswith(f"{file}/") for file in edited) for path in changed), changed
        assert all(any(path == file or path.startswith(f"{file}/") for path in changed) for file in edited), edited
    assert digests(run) == before


@each_kind
def test_a_seed_plants_the_same_each_time(run: Path, tmp_path: Path, name: str) -> None:
    first, again = (plant(run, KINDS[name], tmp_path / copy, seed=2) for copy in ("first", "again"))
    assert without_place(first) == without_place(again)
    assert digests(tmp_path / "first") == digests(tmp_path / "again")


@each_kind
def test_check_finds_what_is_planted_names_it_and_reports_nothing_else(run: Path, tmp_path: Path, name: str) -> None:
    clean = check(run)
    for seed in SEEDS:
        planted = plant(run, KINDS[name], tmp_path / str(seed), seed=seed)
        outcome = compare(planted, check(tmp_path / str(seed)), clean)
        assert outcome.is_right, outcome


def test_nothing_is_reported_of_the_run_without_violation(run: Path) -> None:
    assert faults_of(check(run)) == []


def test_seeds_reach_different_nodes(run: Path, tmp_path: Path) -> None:
    nodes = [plant(run, KINDS["journal-torn"], tmp_path / str(seed), seed=seed).change.nodes for seed in SEEDS]
    assert nodes == [("produce-1",), ("consume-1",), ("broker-a",)]


def test_a_node_that_was_asked_for_is_changed(run: Path, tmp_path: Path) -> None:
    planted = plant(run, KINDS["zeroed-one"], tmp_path / "copy", at="broker-a-s")
    assert planted.change.nodes == ("broker-a-s",)


def test_a_node_that_is_no_place_for_the_kind_is_refused_and_no_copy_stays(run: Path, tmp_path: Path) -> None:
    with pytest.raises(NothingToPlantError, match=r"namesrv-1 is no place for it; expected .*: broker-a, broker-a-s"):
        plant(run, KINDS["zeroed-one"], tmp_path / "copy", at="namesrv-1")
    assert not (tmp_path / "copy").exists()


def test_a_run_without_what_the_kind_needs_is_refused(run: Path, tmp_path: Path) -> None:
    plant(run, KINDS["journal-deleted"], tmp_path / "quiet", at="consume-1")
    plant(tmp_path / "quiet", KINDS["journal-deleted"], tmp_path / "silent", at="sample-1")
    with pytest.raises(NothingToPlantError, match="the run has no consumer"):
        plant(tmp_path / "silent", KINDS["delivery-repeated"], tmp_path / "copy")


def test_an_existing_directory_is_never_overwritten(run: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").touch()
    with pytest.raises(FileExistsError):
        plant(run, KINDS["zeroed-one"], tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["mine"]
