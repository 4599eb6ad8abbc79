"""The contents of wheel and sdist, and their use with a user's modules.

The modules of the user have our packages' names.
"""

import json
import os
import tarfile
import textwrap
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest

from tests.packaging.conftest import HOSTILE, ROOT, Distributions, Environment, names_in

PYSPARK_PACKAGES = {"pyspark_rmqlab_journal", "pyspark_rocketmq", "pyspark_rocketmq_store"}


def tree_files(tree: Path) -> set[str]:
    """Return the modules and data below rmqlab/ by their names in a wheel.

    Some are reached through symbolic links.
    """
    found = set()
    for folder, _folders, files in os.walk(tree / "rmqlab", followlinks=True):
        relative = Path(folder).relative_to(tree)
        named = relative.relative_to("rmqlab/pipeline/discovery") if "discovery" in relative.parts else relative
        found |= {str(named / file) for file in files if file.endswith((".py", ".toml", ".css", ".js", ".typed"))}
    return found


def test_the_wheel_holds_the_package_and_nothing_else(distributions: Distributions) -> None:
    packed = names_in(distributions.wheel)
    own = {name for name in packed if ".dist-info/" not in name}
    assert own == tree_files(ROOT)
    assert {name.split("/")[0] for name in own} == {"rmqlab", *PYSPARK_PACKAGES}
    assert {"rmqlab/py.typed", "rmqlab/verdict/html/style.css", "rmqlab/verdict/html/cursor.js"} <= own
    assert {"rmqlab/cluster/scenario/files/01-kill-master.toml", "rmqlab/cluster/scenario/files/large/hundred-brokers.toml"} <= own  # fmt: skip


def test_the_sdist_gives_the_same_wheel_and_has_no_tests(distributions: Distributions) -> None:
    assert names_in(distributions.wheel_of_sdist) == names_in(distributions.wheel)
    with tarfile.open(distributions.sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert not [name for name in names if name.startswith(("tests/", "build/"))]


def test_the_environment_has_the_wheel(environment: Environment) -> None:
    code = "import rmqlab, rmqlab.broker; print(rmqlab.broker.__file__); print(rmqlab.__version__)"
    file, version = environment.run("python", "-c", code).split()
    assert file.startswith(str(environment.prefix))
    assert environment.run("rmqlab", "--version").split() == ["rmqlab", version]


@pytest.mark.parametrize("package", HOSTILE)
def test_a_bare_import_meets_the_module_of_the_user(environment: Environment, package: str) -> None:
    with pytest.raises(AssertionError, match="a module of the user is imported instead of ours"):
        environment.run("python", "-c", f"import {package}")


@pytest.fixture
def cluster(environment: Environment) -> Iterator[None]:
    """A cluster of the default name runs."""
    environment.run("rmqlab", "up", "--detach")
    try:
        yield
    finally:
        environment.run("rmqlab", "down")


@pytest.mark.usefixtures("cluster")
def test_a_cluster_lives_beside_modules_of_our_packages_names(environment: Environment) -> None:
    assert "SEND_OK" in environment.run("rmqlab", "produce", "--count", "3")
    nodes = json.loads(environment.run("rmqlab", "status", "--json"))["nodes"]
    assert {node["kind"] for node in nodes} == {"nameserver", "broker"}


def test_commands_work_beside_modules_of_other_packages_names(environment: Environment, tmp_path: Path) -> None:
    """Modules of the standard library's names, and of a dependency's."""
    for name in ("json", "logging", "trio", "typing"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a module of the user is imported instead')\n")
    there = attrs.evolve(environment, directory=tmp_path)
    there.run("rmqlab", "up", "--name", "beside", "--detach", "--set", "slave_read_enable=true")
    try:
        assert "SEND_OK" in there.run("rmqlab", "produce", "--name", "beside", "--count", "3")
    finally:
        there.run("rmqlab", "down", "--name", "beside")


def test_the_fixture_works_beside_modules_of_our_packages_names(environment: Environment) -> None:
    test = """
        def test_a_send_arrives(rmq_cluster):
            rmq_cluster.produce("topic", count=1)
    """
    (environment.directory / "test_of_user.py").write_text(textwrap.dedent(test))
    assert "1 passed" in environment.run("python", "-m", "pytest", "-p", "no:cacheprovider", "test_of_user.py")


def test_servers_start_by_module_name(environment: Environment) -> None:
    for server in ("nameserver", "broker"):
        assert "usage" in environment.run("python", "-m", f"rmqlab.{server}", "--help").lower()


def test_modules_of_ours_run_beside_modules_of_the_library(environment: Environment, tmp_path: Path) -> None:
    """`-m` puts the working directory first on the path; other modules keep it there."""
    for name in ("queue", "select", "socket", "click", "trio"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a module of the user is imported instead')\n")
    there = attrs.evolve(environment, directory=tmp_path)
    for module in ("rmqlab", "rmqlab.cluster", "rmqlab.nameserver", "rmqlab.broker"):
        assert "usage" in there.run("python", "-m", module, "--help").lower()
        assert "usage" in there.run("python", f"-m{module}", "--help").lower()
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("import rmqlab\n")
    (tmp_path / "shop" / "__main__.py").write_text("import helper; print(helper.TEXT)\n")
    (tmp_path / "helper.py").write_text("TEXT = 'their own'\n")
    assert there.run("python", "-m", "shop", "rmqlab") == "their own\n"
    assert there.run("python", "-m", "shop", "-m", "rmqlab") == "their own\n"


def test_spark_discovers_the_data_sources(environment: Environment) -> None:
    """As pyspark.sql.worker.lookup_data_sources: by the names of top-level packages."""
    code = "import pkgutil; print(*(m.name for m in pkgutil.iter_modules() if m.name.startswith('pyspark_')))"
    assert set(environment.run("python", "-c", code).split()) >= PYSPARK_PACKAGES
    if find_spec("pyspark"):
        sources = ", ".join(f"{name}.DefaultSource.name()" for name in sorted(PYSPARK_PACKAGES))
        code = f"import {', '.join(PYSPARK_PACKAGES)}; print({sources})"
        assert environment.run("python", "-c", code).split() == ["rmqlab-journal", "rocketmq", "rocketmq-store"]


def test_every_entry_point_loads(environment: Environment) -> None:
    code = """
        from importlib.metadata import distribution
        for point in distribution("rmqlab").entry_points:
            point.load()
            print(point.group, point.name)
    """
    loaded = environment.run("python", "-c", textwrap.dedent(code)).splitlines()
    assert {"console_scripts rmqlab", "pytest11 rmqlab"} == set(loaded)


def test_an_editable_install_imports_the_tree(
    installed: Callable[..., Environment], distributions: Distributions
) -> None:
    editable = installed("--editable", distributions.tree)
    code = "import rmqlab.broker, rmqlab.store; print(rmqlab.broker.__file__, rmqlab.store.__file__)"
    files = editable.run("python", "-c", code).split()
    assert all(file.startswith(str(distributions.tree)) for file in files)
    assert editable.run("rmqlab", "--version").startswith("rmqlab ")
