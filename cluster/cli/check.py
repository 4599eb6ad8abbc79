"""The command that judges a run."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.text import Text

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.view import render_decision, render_evidence, render_findings, render_metrics
from rmqlab.cluster.cli.completion import complete_run
from rmqlab.cluster.cli.output.progress import working
from rmqlab.cluster.cli.output.screen import HangingLine, console
from rmqlab.cluster.cli.terms import DEFAULT_NAME, json_option, misused, print_json, run_directory
from rmqlab.runtime.journals.journalfiles import odd_journals
from rmqlab.store.offline.irregularfiles import irregular_paths
from rmqlab.store.offline.keptstores import no_stores_hint
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.decision import is_notable
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.metrics import UnknownMetricError
from rmqlab.verdict.verdict import Verdict


@click.command()
@click.argument(
    "run",
    metavar="[CLUSTER|SCENARIO|DIRECTORY]",
    default=DEFAULT_NAME,
    shell_complete=complete_run,
    help="A cluster's name, a scenario's (its newest run), or a run's directory. [default]",
)
@click.option("--metric", "-m", multiple=True, help="Show only this metric, with its evidence; repeatable.")
@click.option("--name", "-n", help="The same as the argument, as other commands take it.")
@click.option("every", "--all", "-a", is_flag=True, help="All metrics: also zero, unknown, and of single queues.")
@click.option("--metrics", is_flag=True, help="Print what can be measured, and end.")
@json_option
def check(run: str, metric: tuple[str, ...], *, name: str | None, every: bool, metrics: bool, as_json: bool) -> None:
    """Judge a run by journals and stores: loss, duplicates, order, outages, detection.

    Changes nothing; the cluster may be up or down. A metric without evidence is unknown, with what is missing.
    Exit status 0: the verdict is `holds`. 1: `violated`. 2: `unknown`. It is the same whatever `--metric` shows.
    """
    if metrics and (run != DEFAULT_NAME or name is not None or metric or every):
        wanted = "lost" if run == DEFAULT_NAME else run
        misused(f"--metrics takes only --json; to show one metric of a run: rmqlab check RUN --metric {wanted}")
    if metrics:
        _print_metrics(as_json=as_json)
        return
    if name is not None and run not in (DEFAULT_NAME, name):
        misused(f"{run} and --name {name}: expected one of them")
    run = run if name is None else name
    directory = run_directory(run)
    try:
        with working(f"judging {run}"):
            judgement = judge_directory(directory)
        _report_odd_files(directory)
        chosen = [judgement[name] for name in metric or ()]
    except UnknownMetricError as exc:
        misused(str(exc))
    except OSError as exc:  # there is no verdict: the exit status is that of `unknown`
        misused(f"{exc.filename}: {exc.strerror}")
    if as_json:
        shown = {"findings": {finding.metric: finding.as_json() for finding in chosen}} if chosen else {}
        print_json({**judgement.summary(), **shown})
    else:
        _show(judgement, chosen, every=every)
        if judgement.verdict is Verdict.UNKNOWN and (hint := no_stores_hint(directory)):
            console.print(f"hint: {hint}", style="dim")
    raise click.exceptions.Exit(judgement.verdict.exit_status)


def _print_metrics(*, as_json: bool) -> None:
    if as_json:
        print_json([{"metric": one.title, "unit": one.unit, "says": one.text} for one in METRICS])
    else:
        console.print(render_metrics(METRICS))


def _report_odd_files(directory: Path) -> None:
    """Print a line on stderr for each odd journal or file of a store."""
    odd = [
        (path, f"no regular file that can be read: expected the journal of {path.stem}")
        for path in odd_journals(directory / "journal")
    ]
    for path, why in (*odd, *irregular_paths(directory)):
        click.echo(f"rmqlab: {path}: {why}", err=True)


def _show(judgement: Judgement, chosen: Sequence[Finding], *, every: bool) -> None:
    """Print the chosen findings with their evidence, or a table, then the verdict."""
    if chosen:
        for finding in chosen:
            console.print(render_evidence(finding))
    else:
        rows = [finding for finding in judgement if every or is_notable(finding.metric, finding.value)]
        console.print(render_findings(rows))
        hidden = len(judgement.by_metric) - len(rows)
        if hidden:
            text = f"{hidden} metrics are zero, unknown or of single queues: --all shows them"
            console.print(HangingLine(Text(text, "dim")))
    console.print(render_decision(judgement.decision))
