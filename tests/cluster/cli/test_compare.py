"""The command compare, with made-up runs in the place of played ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.cluster.cli import compare
from rmqlab.cluster.scenario.comparison import VARIANTS, Variant, figures_of
from rmqlab.cluster.scenario.comparison_page import PlayedVariant


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the runs; return the names of the variants that were played."""
    names: list[str] = []

    def play(_path: Path, _scenario: str, variant: Variant, *_options: object) -> tuple[dict[str, Any], PlayedVariant]:
        names.append(variant.name)
        run = MadeUpRun()
        run.send(1)
        history = run.history()
        figures = figures_of(history, run.judge())
        document = {"name": variant.name, "figures": figures, "missing": [], "directory": "/runs/1"}
        return document, PlayedVariant(name=variant.name, figures=figures, history=history, directory="/runs/1")

    monkeypatch.setattr(compare, "_play", play)
    return names


def test_a_page_is_made_beside_the_document(tmp_path: Path, played: list[str]) -> None:
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["compare", "kill-master", "--report", str(page), "--json"])
    assert done.exit_code == 0, done.output
    assert played == [variant.name for variant in VARIANTS]
    document = json.loads(done.stdout)
    assert (document["scenario"], [run["name"] for run in document["runs"]]) == ("kill-master", played)
    text = page.read_text()
    assert "<h1>kill-master</h1>" in text
    assert all(f"<th>{name}</th>" in text for name in played)


@pytest.mark.parametrize(("place", "message"), [("none/page.html", "is not a directory"), (".", "expected a path for")])
def test_an_unwritable_page_is_rejected_before_the_first_run(
    tmp_path: Path, played: list[str], place: str, message: str
) -> None:
    done = CliRunner().invoke(app, ["compare", "kill-master", "--report", str(tmp_path / place)])
    assert done.exit_code == 2
    assert message in done.output
    assert played == []
