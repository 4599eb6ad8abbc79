"""The canonical scenarios: playable, with reason and source, and listed."""

import pathlib

import pytest

from rmqlab.cluster.scenario.catalogue import (
    NoScenarioError,
    catalogue_dir,
    find_by_source,
    find_scenario,
    list_scenarios,
)

CANONICAL = [
    "kill-master",
    "freeze-master",
    "producer-vs-frozen",
    "async-kill-under-load",
    "sync-slave-killed",
    "sync-slave-frozen",
    "offset-rollback",
    "lagging-slave-pull",
    "fresh-slave",
    "expired-slave",
    "idle-link",
    "forged-ack",
    "orderly-consumer",
    "delayed-and-transactional",
    "nameserver-split",
    "power-loss",
]


def test_all_sixteen_are_there_and_can_be_played() -> None:
    listed = {it.scenario.name: it for it in list_scenarios()}
    assert listed.keys() >= set(CANONICAL)
    for name, it in listed.items():
        assert it.path.stem.partition("-")[2] == name
        if name in CANONICAL:
            assert int(it.path.stem.partition("-")[0]) == CANONICAL.index(name) + 1
        assert 0 < len(it.scenario.claim) <= 120, f"{name}: claim"
        assert len(it.scenario.why.strip().splitlines()) in (2, 3), f"{name}: why, in two lines"
        assert it.scenario.sources
        assert len(it.scenario.expectations) >= 2
        assert it.scenario.cluster.rate <= 30


def test_large_ones_lie_apart_and_can_be_played() -> None:
    (large,) = list_scenarios(catalogue_dir() / "large")
    assert large.scenario.cluster.groups == 50
    assert large.scenario.name not in {it.scenario.name for it in list_scenarios()}


def test_a_scenario_is_found_by_name_by_path_and_by_issue() -> None:
    path = find_scenario("kill-master")
    assert path.parent == catalogue_dir()
    assert find_scenario(str(path)) == path
    assert [it.scenario.name for it in find_by_source("rmq#1094")] == ["offset-rollback"]
    assert [it.scenario.name for it in find_by_source("3661")] == ["fresh-slave"]
    assert {it.scenario.name for it in find_by_source("rmq#8006")} == {"delayed-and-transactional"}
    assert {it.scenario.name for it in find_by_source("ali#416")} == {"kill-master"}


@pytest.mark.parametrize(
    ("word", "text"), [("kil-master", "did you mean kill-master"), ("x/y.toml", "no scenario file")]
)
def test_an_unknown_scenario_is_reported_with_similar_names(word: str, text: str) -> None:
    with pytest.raises(NoScenarioError, match=text):
        find_scenario(word)


def test_a_path_in_the_working_directory_needs_no_slash(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("")
    (tmp_path / "kill-master").mkdir()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_scenario("mine") == pathlib.Path("mine")
    assert find_scenario("kill-master").name == "01-kill-master.toml"
    with pytest.raises(NoScenarioError, match=r"^folder is a directory: expected a scenario file$"):
        find_scenario("folder")


@pytest.mark.parametrize("word", ["rmq#1094", "RMQ#1094", "rmq1094", "#1094", "1094"])
def test_an_issue_is_found_in_each_spelling_of_its_number(word: str) -> None:
    assert find_by_source(word) == find_by_source("rmq#1094")


def test_an_issue_without_a_scenario_is_reported() -> None:
    with pytest.raises(NoScenarioError, match="no scenario reproduces rmq#1"):
        find_by_source("rmq#1")
