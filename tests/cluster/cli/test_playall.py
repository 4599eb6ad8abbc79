"""Scenarios that do not hold: selection of retries, their run, and output for CI."""

import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.cli import playall

SCENARIO = """\
name = "{name}"
claim = "it holds"

[[step]]
mark = "done"

[[expect]]
metric = "lost"
equals = "0 messages"
"""


class Script:
    """Replaces `rmqlab run` by scripted verdicts, one for each run of a scenario."""

    def __init__(self, directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch, **verdicts: str) -> None:
        self.directory, self.verdicts = directory, {name: words.split() for name, words in verdicts.items()}
        self.played: list[tuple[str, Sequence[str]]] = []
        for name in verdicts:
            (directory / f"{name}.toml").write_text(SCENARIO.format(name=name))
        monkeypatch.setattr(playall, "run_subprocess", self.run_subprocess)

    async def run_subprocess(self, path: pathlib.Path, profile: str, more: Sequence[str]) -> dict[str, Any]:
        assert profile == "4.9"
        self.played.append((path.stem, more))
        verdict, _, disturbed = self.verdicts[path.stem].pop(0).partition("-")
        is_disturbed = disturbed == "disturbed"
        base = {"verdict": verdict, "seconds": 1.0, "rate": 10, "is_disturbed": is_disturbed}
        return {**base, "expectations": [], "missing": []}

    def run(self, *options: str) -> tuple[int, list[str]]:
        """Exit status, and the last lines."""
        result = CliRunner().invoke(app, ["scenarios", "--run", "--dir", str(self.directory), *options])
        return result.exit_code, result.stdout.splitlines()


def test_a_scenario_that_holds_alone_is_flaky_and_counts_as_passed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(tmp_path, monkeypatch, good="holds", odd="violated holds")
    status, lines = script.run("--retry", "--keep-stores")
    assert status == 0
    assert lines[-3:] == ["2 scenarios, 2 runs: 2 holds", "FLAKY odd (4.9)", "scenarios: 2 passed, 0 failed, 0 skipped"]
    assert script.played[-1] == ("odd", ["--keep-stores"])


def test_a_scenario_that_does_not_hold_alone_either_has_failed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(tmp_path, monkeypatch, good="holds", bad="violated violated", lost="unknown unknown")
    status, lines = script.run("--retry")
    assert (status, lines[-1]) == (1, "scenarios: 1 passed, 2 failed, 0 skipped")
    assert not [line for line in lines if line.startswith("FLAKY")]


def test_one_that_a_busy_machine_disturbed_is_played_slower_first(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(tmp_path, monkeypatch, slow="violated-disturbed violated holds")
    status, lines = script.run("--retry")
    assert (status, lines[-2:]) == (0, ["FLAKY slow (4.9)", "scenarios: 1 passed, 0 failed, 0 skipped"])
    assert [more for _, more in script.played] == [[], ["--rate", "2.5"], []]


def test_many_that_do_not_hold_are_not_played_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(tmp_path, monkeypatch, **dict.fromkeys("abcdef", "violated"))
    status, lines = script.run("--retry")
    assert (status, lines[-1]) == (1, "scenarios: 0 passed, 6 failed, 0 skipped")


def test_without_the_option_nothing_is_played_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, lines = Script(tmp_path, monkeypatch, odd="unknown").run()
    assert (status, lines[-1]) == (2, "1 scenario, 1 run: 1 unknown")
