import pathlib
from collections.abc import Iterator

import pytest

from rmqlab.pipeline.errors import NoPathError
from rmqlab.pipeline.paths.localpaths import local_paths
from rmqlab.pipeline.paths.sourcepaths import AnyPath, find_all


class _EmptyError(Exception):
    pass


def names(path: AnyPath) -> Iterator[str]:
    if not (path / "full").is_file():
        raise _EmptyError(f"{path} is empty")
    yield path.name


@pytest.mark.parametrize("uri", ["file://{}", "file:{}", "FILE://localhost{}", "{}"])
def test_a_file_uri_is_its_path(tmp_path: pathlib.Path, uri: str) -> None:
    spaced = tmp_path / "a b"
    spaced.mkdir()
    text = str(spaced).replace(" ", "%20") if uri != "{}" else str(spaced)
    assert local_paths(uri.format(text)) == [spaced]


def test_relative_paths_and_homes_become_absolute(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert local_paths("a/b") == [tmp_path / "a" / "b"]
    assert local_paths("~/c") == [tmp_path / "c"]


def test_a_pattern_names_each_directory_once(tmp_path: pathlib.Path) -> None:
    for name in ("run-1", "run-2", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "run-latest").symlink_to("run-2")
    wanted = [tmp_path / "run-1", tmp_path / "run-2"]
    assert local_paths(f"{tmp_path}/run-*") == wanted
    assert local_paths(f"file://{tmp_path}/run-?") == wanted
    assert local_paths(f"{tmp_path}/run-[12]") == wanted


def test_a_path_that_exists_is_no_pattern(tmp_path: pathlib.Path) -> None:
    (tmp_path / "run[1]").mkdir()
    (tmp_path / "run1").mkdir()
    assert local_paths(f"{tmp_path}/run[1]") == [tmp_path / "run[1]"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("hdfs:/a/b", "hdfs:/a/b has no //; expected hdfs://host/path, a path, a glob pattern or file:///path"),
        ("file://far/b", "names host far"),
        ("file:b", "is relative"),
        ("/nowhere/*/at-all", "nothing matches /nowhere"),
    ],
)
def test_remote_and_unmatched_paths_are_rejected(path: str, said: str) -> None:
    with pytest.raises(NoPathError, match=said):
        local_paths(path)


def test_an_empty_match_is_passed_over_unless_all_are(tmp_path: pathlib.Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "full").touch()
    (tmp_path / "c" / "full").touch()
    assert find_all([f"{tmp_path}/*"], names, empty=_EmptyError) == ["a", "c"]
    with pytest.raises(_EmptyError):
        find_all([f"{tmp_path}/b*"], names, empty=_EmptyError)
    with pytest.raises(_EmptyError):
        find_all([f"{tmp_path}/a", f"{tmp_path}/b"], names, empty=_EmptyError)
