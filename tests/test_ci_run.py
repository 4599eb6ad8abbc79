"""`.ci/run` and the Makefile: output for CI, and all targets in `make help`."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from tests.pipeline.conftest import LONGEST

ROOT = pathlib.Path(__file__).parents[1]
STEPS = ("check", "test", "hunt", "scenarios", "fuzz", "spark", "interop")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def ci_run(tmp_path: pathlib.Path, **recipes: str) -> tuple[int, list[str], str]:
    """Run the script with a Makefile of these recipes; return status and output.

    The output is in two parts: the closing lines, and all lines before.
    """
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    targets = {".venv/.ready": "@true", **dict.fromkeys(STEPS, "@true"), **recipes}
    (tmp_path / "Makefile").write_text("".join(f"{target}:\n\t{recipe}\n" for target, recipe in targets.items()))
    browser = tmp_path / "bin" / "chromium"  # one that is there is not installed
    browser.parent.mkdir()
    browser.touch(mode=0o755)
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{browser.parent}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    before, _, closing = done.stdout.partition("== closing lines\n")
    return done.returncode, closing.splitlines(), before


def test_each_step_has_a_closing_line_and_flaky_tests_are_named(tmp_path: pathlib.Path) -> None:
    status, closing, before = ci_run(
        tmp_path,
        test="@echo work; echo FLAKY tests/a.py::b; echo 'test: 7 passed, 0 failed, 1 skipped'",
        scenarios="@echo 'scenarios: 2 passed, 0 failed, 0 skipped'",
    )
    assert status == 0
    assert closing == [
        "check: 1 passed, 0 failed, 0 skipped",
        "FLAKY tests/a.py::b",
        "test: 7 passed, 0 failed, 1 skipped",
        "hunt: 1 passed, 0 failed, 0 skipped",
        "scenarios: 2 passed, 0 failed, 0 skipped",
        "fuzz: 1 passed, 0 failed, 0 skipped",
        "spark: 1 passed, 0 failed, 0 skipped",
        "interop: 1 passed, 0 failed, 0 skipped",
    ]
    assert "work\n" in before
    assert " passed, " not in before, "a closing line is printed once"


def test_the_first_step_that_fails_is_the_last(tmp_path: pathlib.Path) -> None:
    status, closing, _ = ci_run(
        tmp_path,
        test="@echo FAILED tests/a.py::b; echo 'test: 7 passed, 1 failed, 0 skipped'; false",
        scenarios="@echo 'scenarios: 1 passed, 0 failed, 0 skipped'",
    )
    assert (status, closing) == (
        1,
        ["check: 1 passed, 0 failed, 0 skipped", "test: 7 passed, 1 failed, 0 skipped"],
    )


def test_a_step_without_counts_that_fails_is_one_failure(tmp_path: pathlib.Path) -> None:
    status, closing, before = ci_run(tmp_path, check="@echo unformatted; false")
    assert (status, closing) == (1, ["check: 0 passed, 1 failed, 0 skipped"])
    assert "unformatted\n" in before


def test_a_set_up_that_fails_fails_the_run(tmp_path: pathlib.Path) -> None:
    status, closing, _ = ci_run(tmp_path, **{".venv/.ready": "@false"})
    assert (status, closing) == (1, [])


def test_help_describes_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^  make (\S+) +\S", shown, re.MULTILINE) == phony[1].split()


def test_recipes_keep_the_bytecode_of_modules() -> None:
    """A machine may turn it off.

    Each process of the tests would then compile all modules.
    """
    recipe = 'shown: ; @echo "<$$PYTHONDONTWRITEBYTECODE>"'
    done = subprocess.run(
        ["make", "--no-print-directory", "--eval", recipe, "shown"],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "<>\n"


def test_files_that_start_first_exist() -> None:
    """A file that was renamed would start among the last ones."""
    assert [name for name in LONGEST if not (ROOT / "tests" / "pipeline" / f"{name}.py").exists()] == []


def test_the_packages_of_spark_are_those_of_the_extra() -> None:
    recipe = "shown: ; @echo $(SPARK_PACKAGES)"
    done = subprocess.run(
        ["make", "--no-print-directory", "--eval", recipe, "shown", f"BIN={pathlib.Path(sys.executable).parent}"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert done.stdout.split() == project["optional-dependencies"]["spark"]
