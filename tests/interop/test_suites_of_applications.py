"""The example test suites in Java and Go, run as their users run them.

They start clusters with `rmqlab up --control`, and kill a master below an application.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.long]  # they test what wraps our clients, not the protocol

EXAMPLES = Path(__file__).parents[2] / "examples"
RMQLAB = Path(sys.executable).with_name("rmqlab")
SECONDS = 800


def run_suite(folder: Path, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Run a test suite in a folder; return the output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-6000:]
    return output


def copy_of(name: str, tmp_path: Path) -> Path:
    """Copy an example, so that nothing is written into its folder."""
    return shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("target"))


def test_the_junit_extension_and_the_application_that_survives_a_masters_death(tmp_path: Path) -> None:
    output = run_suite(copy_of("junit", tmp_path), ["mvn", "--batch-mode", "test", f"-Drmqlab.command={RMQLAB}"])
    assert "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0" in output


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_the_go_package_and_the_application_that_survives_a_masters_death(tmp_path: Path) -> None:
    output = run_suite(
        copy_of("go", tmp_path), ["go", "test", "-v", "-count=1", "./..."], {"RMQLAB_COMMAND": str(RMQLAB)}
    )
    assert output.count("--- PASS: ") == 2
