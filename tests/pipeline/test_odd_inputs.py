"""Odd things in the place of a run, or of its audit: one line that names it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from tests.cluster.cli.test_odd_inputs import EVERY

each = pytest.mark.parametrize("kind", EVERY)


def error_of(*arguments: str) -> str:
    """Return the only line on stderr of a command that fails."""
    done = CliRunner().invoke(app, arguments, prog_name="rmqlab")
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 2  # 1 would be `violated`
    (line,) = done.stderr.splitlines()
    return line


@each
@pytest.mark.parametrize("command", ["audit", "report"])
def test_a_run(tmp_path: Path, kind: str, command: str) -> None:
    path = tmp_path / "odd"
    EVERY[kind](path)
    error = error_of(command, str(path))
    assert str(path) in error
    assert "did you mean" not in error


@each
@pytest.mark.parametrize("below", ["audit", "audit/audit.json"])
def test_an_audit_to_report(tmp_path: Path, kind: str, below: str) -> None:
    (tmp_path / "journal").mkdir()
    path = tmp_path / below
    path.parent.mkdir(exist_ok=True)
    EVERY[kind](path)
    assert f"rmqlab audit {tmp_path}" in error_of("report", str(tmp_path))
