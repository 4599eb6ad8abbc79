"""Distributions built from a copy of the tree, and environments. No network."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "runs", "target")
HOSTILE = (
    "broker",
    "client",
    "cluster",
    "dledger",
    "faults",
    "nameserver",
    "pipeline",
    "remoting",
    "runtime",
    "simulation",
    "store",
    "verdict",
)


def run(argv: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """What a command printed.

    An AssertionError with all its output if it fails or takes more than 100 s.
    """
    done = subprocess.run(
        argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}"
    return done.stdout


@attrs.frozen
class Distributions:
    """The distributions built in both ways."""

    tree: Path
    """The copy of the tree that they were built from, with remains of former builds."""
    wheel: Path
    """Built from the tree."""
    sdist: Path
    wheel_of_sdist: Path


def names_in(wheel: Path) -> list[str]:
    """The files of a wheel, sorted."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def _leave_remains(tree: Path) -> None:
    """Put there what an older version's build could have left."""
    for name in ("build/lib/store/__init__.py", "build/lib/rmqlab/gone.py", "broker/noted.txt"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    (tree / "rmqlab.egg-info").mkdir()
    (tree / "rmqlab.egg-info" / "SOURCES.txt").write_text("rmqlab/broker/noted.txt\ntests/conftest.py\n")


def _build(source: Path, kind: str, into: Path) -> Path:
    run([sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", into, source], cwd=into.parent)
    (built,) = into.iterdir()
    return built


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Wheel and sdist of the tree, and the wheel that the sdist gives."""
    place = tmp_path_factory.mktemp("dist")
    tree = place / "tree"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=_NOT_COPIED)
    _leave_remains(tree)
    wheel, sdist = _build(tree, "wheel", place / "wheel"), _build(tree, "sdist", place / "sdist")
    (place / "unpacked").mkdir()
    run(["tar", "-xf", sdist], cwd=place / "unpacked")  # tarfile's safe way of it needs a newer Python
    (unpacked,) = (place / "unpacked").iterdir()
    return Distributions(tree, wheel, sdist, _build(unpacked, "wheel", place / "of-sdist"))


@attrs.frozen
class Environment:
    """A virtual environment with rmqlab, and a user's modules with our old names."""

    prefix: Path
    directory: Path
    variables: Mapping[str, str]

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the environment in the user's directory."""
        return run([self.prefix / "bin" / program, *arguments], cwd=self.directory, env=self.variables)


def _lend_packages(prefix: Path) -> None:
    """Let an environment import the packages of this one, except editable installs.

    `.pth` files work only in an environment's own directory: those of editable installs are not read from here.
    """
    own = Path(sysconfig.get_path("purelib", vars={"base": str(prefix), "platbase": str(prefix)}))
    lent = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    (own / "lent.pth").write_text("\n".join(lent))


def _hostile_directory(place: Path) -> Path:
    place.mkdir()
    for name in HOSTILE:
        (place / f"{name}.py").write_text("raise RuntimeError('a module of the user is imported instead of ours')\n")
    return place


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Environment]:
    """Return a function that runs `pip install ARGUMENTS` in a new environment."""

    def install(*what: str | Path) -> Environment:
        place = tmp_path_factory.mktemp("installed")
        prefix = place / "venv"
        venv.create(prefix, symlinks=True)
        _lend_packages(prefix)
        offline = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
        run([sys.executable, "-m", "pip", "--python", prefix / "bin" / "python", "install", *offline, *what], cwd=place)
        directory = _hostile_directory(place / "user")
        # The user's modules come first in every process, not only in those that look into the current directory.
        variables = {**os.environ, "PYTHONPATH": str(directory), "RMQLAB_HOME": str(place / "home")}
        return Environment(prefix, directory, variables)

    return install


@pytest.fixture(scope="session")
def environment(installed: Callable[..., Environment], distributions: Distributions) -> Environment:
    """The wheel, installed."""
    return installed(distributions.wheel)
