"""The command compare: one scenario, with different remedies for a dead master."""

from pathlib import Path
from typing import Annotated, Any

import trio
import typer
from rich.table import Table
from rich.text import Text

from rmqlab.cluster.checks import judge_with_history
from rmqlab.cluster.cli.line_output import LineOutput
from rmqlab.cluster.cli.playall import run_apart
from rmqlab.cluster.cli.terms import AsJson, console, fail, misused, print_json
from rmqlab.cluster.scenario.catalogue import NoScenarioError, find_scenario
from rmqlab.cluster.scenario.comparison import VARIANTS, Variant, as_rows, figures_of

DEFAULT_PATIENCE = 10.0


def compare(
    scenario: Annotated[str, typer.Argument(help="A name that `rmqlab scenarios` lists, or a file.")] = "kill-master",
    promote_after: Annotated[
        float, typer.Option(min=0.0, help="Seconds after which the operator promotes a slave.")
    ] = DEFAULT_PATIENCE,
    rate: Annotated[float | None, typer.Option(min=0.01, help="Cluster seconds per real second.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Play a scenario in 4.9, hardened, promoted by hand, and on DLedger.

    Prints what each cost the clients. Exit status 0, or 2 if a run did not reach its end.
    """
    try:
        path = find_scenario(scenario)
    except NoScenarioError as exc:
        misused(str(exc))
    output = LineOutput(is_silent=as_json)
    try:
        runs = [_play(path, variant, promote_after, rate, output) for variant in VARIANTS]
    except KeyboardInterrupt:
        fail("interrupted; the run is stopped, and its directory is kept")
    finally:
        output.show_progress(None)
    if as_json:
        print_json({"scenario": path.stem, "promote_after": promote_after, "runs": runs})
    else:
        console.print(_render(runs))
    raise typer.Exit(2 if any(run["missing"] for run in runs) else 0)


def _play(path: Path, variant: Variant, patience: float, rate: float | None, output: LineOutput) -> dict[str, Any]:
    """Run the scenario in its own process; return figures and what is missing."""
    options = ["--keep-stores", *(["--rate", f"{rate:g}"] if rate is not None else [])]
    options += ["--promote-after", f"{patience:g}"] if variant.promotes else []
    options += ["--mode", variant.mode] if variant.mode is not None else []
    output.show_progress(lambda: f"playing {path.stem}: {variant.name}")
    done = trio.run(run_apart, path, variant.profile, options)
    directory = done.get("directory")
    if directory is None:
        fail(f"{variant.name}: {'; '.join(done['missing'])}")
    figures = figures_of(*judge_with_history(Path(directory)))
    output.line(f"played {variant.name}: {directory}")
    return {
        "name": variant.name,
        "profile": variant.profile,
        "figures": figures,
        "missing": done["missing"],
        "directory": directory,
    }


def _render(runs: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for run in runs:
        table.add_column(run["name"], justify="right")
    for says, values in as_rows([run["figures"] for run in runs]):
        table.add_row(says, *values)
    for run in runs:
        for text in run["missing"]:
            table.add_row(Text(f"{run['name']}: {text}", "yellow"))
    return table
