"""Finds scenario files by name, path or issue number."""

import os
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import attrs

from rmqlab.cluster.scenario.binding import near
from rmqlab.cluster.scenario.load import ScenarioError, load_scenario
from rmqlab.cluster.scenario.model import Scenario

SUFFIX = ".toml"
_ISSUE = re.compile(r"(?P<tracker>rmq|ali)?#?(?P<number>[0-9]+)")


class NoScenarioError(ValueError):
    """There is no such scenario. The text lists those that exist."""


@attrs.frozen
class Listed:
    """A scenario and its file."""

    path: Path
    scenario: Scenario


def catalogue_dir() -> Path:
    """Return the directory of the canonical scenarios.

    It is `examples/scenarios` of the source tree, or its copy in an installed package.
    """
    package = Path(str(resources.files("rmqlab.cluster.scenario")))
    beside = package.parents[1] / "examples" / "scenarios"
    return beside if beside.is_dir() else package / "files"


def large_dir() -> Path:
    """Return the directory of the large scenarios, which `--run` leaves out."""
    return catalogue_dir() / "large"


def list_scenarios(directory: Path | None = None) -> Iterator[Listed]:
    """Return the scenarios of a directory, sorted by file name.

    ScenarioError for an invalid one, or for a directory without any.
    """
    directory = directory or catalogue_dir()
    paths = sorted(directory.glob(f"*{SUFFIX}"))
    if not paths:
        what = "has no scenario files" if directory.is_dir() else "is not a directory"
        raise ScenarioError(f"{directory} {what}: expected a directory with files *{SUFFIX}")
    for path in paths:
        yield Listed(path, load_scenario(path))


def canonical_scenarios() -> dict[str, Path]:
    """Return the files of all canonical scenarios, by name."""
    return {
        _name_of(path): path for directory in (catalogue_dir(), large_dir()) for path in directory.glob(f"*{SUFFIX}")
    }


def find_scenario(word: str) -> Path:
    """Return the file of a scenario by path or canonical name.

    NoScenarioError if there is none.
    """
    names = canonical_scenarios()
    if word.endswith(SUFFIX) or "/" in word or (word not in names and os.path.lexists(word)):
        if not Path(word).is_file():
            what = (
                f"{word} is a directory: expected a scenario file"
                if Path(word).is_dir()
                else f"no scenario file {word}"
            )
            raise NoScenarioError(what)
        return Path(word)
    if word not in names:
        raise NoScenarioError(f"no scenario {word!r}{near(word, names)}")
    return names[word]


def find_by_source(source: str) -> list[Listed]:
    """Return the scenarios that reproduce an issue, such as `rmq#1094`.

    `rmq1094`, `#1094` and `1094` are the same issue; `ali#400` and `ali400` are one of the older tracker.

    NoScenarioError if there is none.
    """
    wanted = source
    if match := _ISSUE.fullmatch(source.lower()):
        wanted = f"{match['tracker'] or 'rmq'}#{match['number']}"
    listed = list(list_scenarios())
    found = [it for it in listed if wanted in it.scenario.sources]
    if not found:
        raise NoScenarioError(f"no scenario reproduces {wanted}; `rmqlab scenarios` lists the issues that have one")
    return found


def _name_of(path: Path) -> str:
    """Return the name of a file: offset-rollback for `07-offset-rollback.toml`."""
    number, dash, name = path.stem.partition("-")
    return name if dash and number.isdigit() else path.stem
