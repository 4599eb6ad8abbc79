"""The command compare: one scenario, with different remedies for a dead master."""

from pathlib import Path
from typing import Any

import click
import trio
from rich.text import Text

from rmqlab.cluster.checks import judge_with_history
from rmqlab.cluster.cli.completion import complete_scenario
from rmqlab.cluster.cli.number import NumberRange
from rmqlab.cluster.cli.output.line_output import LineOutput
from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.output.uncuttable import UncutTable
from rmqlab.cluster.cli.playall import run_subprocess
from rmqlab.cluster.cli.terms import json_option, misused, no_result, print_json
from rmqlab.cluster.scenario.catalogue import NoScenarioError, find_scenario
from rmqlab.cluster.scenario.comparison import VARIANTS, Variant, as_rows, figures_of
from rmqlab.cluster.scenario.comparison_page import PlayedVariant, render_comparison
from rmqlab.cluster.scenario.load import ScenarioError, load_scenario

DEFAULT_PATIENCE = 10.0


@click.command()
@click.argument(
    "scenario",
    default="kill-master",
    shell_complete=complete_scenario,
    help="A name that `rmqlab scenarios` lists, or a file. [kill-master]",
)
@click.option(
    "--promote-after",
    type=NumberRange(min=0.0),
    default=DEFAULT_PATIENCE,
    help="Seconds after which the operator promotes a slave.",
)
@click.option("--rate", type=NumberRange(min=0.01), help="Cluster seconds per real second.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Also write an HTML page to this file: the table, and timelines."
)
@json_option
def compare(scenario: str, promote_after: float, rate: float | None, report: Path | None, *, as_json: bool) -> None:
    """Play a scenario in 4.9, hardened, promoted by hand, and on DLedger.

    Prints the losses and outages of each run. Exit status 0, or 2 if a run did not reach its end.
    """
    try:
        path = find_scenario(scenario)
        chosen = load_scenario(path)
    except (NoScenarioError, ScenarioError) as exc:
        misused(str(exc))
    if report is not None and not report.parent.is_dir():
        misused(f"--report {report}: {report.parent} is not a directory")
    if report is not None and report.is_dir():
        misused(f"--report {report}: a directory; expected a path for the page")
    output = LineOutput(is_silent=as_json)
    try:
        played = [_play(path, chosen.name, variant, promote_after, rate, output) for variant in VARIANTS]
    except KeyboardInterrupt:
        no_result("interrupted; the run is stopped, and its directory is kept")
    finally:
        output.show_progress(None)
    runs = [document for document, _ in played]
    if report is not None:
        _write_page(report, chosen.name, chosen.claim, [run for _, run in played], output)
    if as_json:
        print_json({"scenario": chosen.name, "promote_after": promote_after, "runs": runs})
    else:
        console.print(_render(runs))
    raise click.exceptions.Exit(2 if any(run["missing"] for run in runs) else 0)


def _write_page(report: Path, scenario: str, claim: str, runs: list[PlayedVariant], output: LineOutput) -> None:
    try:
        report.write_text(render_comparison(scenario, claim, runs), encoding="utf-8")
    except OSError as exc:
        no_result(f"--report {report}: {exc.strerror or exc}")
    output.line(f"page: {report}")


def _play(
    path: Path, scenario: str, variant: Variant, patience: float, rate: float | None, output: LineOutput
) -> tuple[dict[str, Any], PlayedVariant]:
    """Run the scenario in its own process.

    Return the document that `--json` prints, with figures and what is missing, and the run itself.
    """
    options = ["--keep-stores", *(["--rate", f"{rate:g}"] if rate is not None else [])]
    options += ["--promote-after", f"{patience:g}"] if variant.promotes else []
    options += ["--mode", variant.mode] if variant.mode is not None else []
    output.show_progress(lambda: f"playing {scenario}: {variant.name}")
    done = trio.run(run_subprocess, path, variant.profile, options)
    directory = done.get("directory")
    if directory is None:
        no_result(f"{variant.name}: {'; '.join(done['missing'])}")
    history, judgement = judge_with_history(Path(directory))
    run = PlayedVariant(name=variant.name, figures=figures_of(history, judgement), history=history, directory=directory)
    output.line(f"played {variant.name}: {directory}")
    document = {
        "name": variant.name,
        "profile": variant.profile,
        "figures": run.figures,
        "missing": done["missing"],
        "directory": directory,
    }
    return document, run


def _render(runs: list[dict[str, Any]]) -> UncutTable:
    table = UncutTable()
    table.add_column("")
    for run in runs:
        table.add_column(run["name"], justify="right")
    for text, values in as_rows([run["figures"] for run in runs]):
        table.add_row(text, *values)
    for run in runs:
        for text in run["missing"]:
            table.add_row(Text(f"{run['name']}: {text}", "yellow"))
    return table
