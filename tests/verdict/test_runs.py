import pathlib

import pytest

from rmqlab.verdict.runs import NoRunError, find_run, name_of


def make(path: pathlib.Path) -> pathlib.Path:
    (path / "journal").mkdir(parents=True)
    (path / "journal" / "namesrv-1.msgpack").touch()
    return path


@pytest.fixture
def home(tmp_path: pathlib.Path) -> pathlib.Path:
    """One cluster, and a scenario that was run twice."""
    make(tmp_path / "demo")
    make(tmp_path / "runs" / "kill-master" / "20261121T214413Z")
    make(tmp_path / "runs" / "kill-master" / "20261122T000218Z")
    (tmp_path / "runs" / "kill-master" / "latest").symlink_to("20261121T214413Z")
    return tmp_path


def test_a_run_is_found_by_its_directory_its_cluster_and_its_scenario(home: pathlib.Path) -> None:
    newest = home / "runs" / "kill-master" / "20261122T000218Z"
    assert find_run("demo", home) == home / "demo"
    assert find_run(str(home / "demo"), home) == home / "demo"
    assert find_run(str(home / "demo" / "journal"), home) == home / "demo"
    assert find_run("kill-master", home) == newest
    assert find_run(str(newest.parent), home) == newest
    assert find_run(str(newest.parent / "latest"), home) == newest.parent / "20261121T214413Z"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kil-master", "did you mean kill-master?"),
        ("dmeo", "did you mean demo?"),
        ("quite-else", "called quite-else (looked in"),
        ("quite-else", "there are: demo, kill-master)"),
        ("{home}/dmeo", "there is no directory {home}/dmeo; did you mean demo?"),
        ("{home}", "{home} is no run: expected journal/<node>.msgpack below it"),
        ("./nowhere/at/all", "there is no directory nowhere/at/all"),
    ],
)
def test_an_invalid_run_is_reported_with_the_existing_runs(home: pathlib.Path, name: str, message: str) -> None:
    with pytest.raises(NoRunError) as caught:
        find_run(name.format(home=home), home)
    assert message.format(home=home) in str(caught.value)


def test_a_cluster_without_journals_is_not_called_unknown(home: pathlib.Path) -> None:
    (home / "shop").mkdir()
    (home / "shop" / "cluster.json").touch()
    with pytest.raises(NoRunError, match=r"/shop is no run: expected journal/<node>\.msgpack below it$"):
        find_run("shop", home)


def test_a_name_of_two_things_is_not_guessed_at(home: pathlib.Path) -> None:
    make(home / "kill-master")
    with pytest.raises(NoRunError, match="is a cluster and a scenario; give the path"):
        find_run("kill-master", home)


def test_where_nothing_was_run_that_is_said(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NoRunError, match="nothing was run yet"):
        find_run("demo", tmp_path)


def test_a_scenarios_run_is_called_by_the_scenario() -> None:
    assert name_of(pathlib.Path("/home/runs/kill-master/20261121T214413Z")) == "kill-master"
    assert name_of(pathlib.Path("/home/runs/kill-master/20261121T214413Z-2")) == "kill-master"
    assert name_of(pathlib.Path("/home/demo")) == "demo"


def test_a_directory_of_that_name_that_is_no_run_is_named(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "empty").mkdir()
    monkeypatch.chdir(home)
    with pytest.raises(NoRunError, match=r"is called empty .*, and empty in this directory is no run$"):
        find_run("empty", home)
