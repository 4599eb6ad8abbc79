"""The linter rejects imports of our packages by another name than `rmqlab.*`."""

import subprocess
import sys

import pytest

from tests.packaging.conftest import HOSTILE, ROOT


def test_every_package_has_a_hostile_namesake() -> None:
    packages = {path.parent.name for path in (ROOT / "rmqlab").glob("*/__init__.py")}
    assert packages == set(HOSTILE)


@pytest.mark.parametrize("package", HOSTILE)
@pytest.mark.parametrize("line", ["import {}", "import {}.other", "from {} import other", "from {}.other import third"])
def test_the_linter_rejects_bare_imports(package: str, line: str) -> None:
    arguments = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--output-format", "concise", "-"]
    code = line.format(package) + "\n"
    checked = subprocess.run(arguments, cwd=ROOT, input=code, capture_output=True, text=True, check=False)
    assert checked.returncode == 1, checked.stderr
    assert f"import it as rmqlab.{package}" in checked.stdout
