"""The commands `rmqlab audit` and `rmqlab report`.

`rmqlab.cluster.cli.commands` names them.

Exit status of an audit: 0 holds, 1 violated, 2 unknown. If the audit fails, or its page cannot be written: 2, and one
line on stderr. If a store has a path that is not a regular file, such as a pipe: 2, and a line for each.
"""

import contextlib
import json
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from rmqlab.pipeline.errors import NoSparkError, UserError
from rmqlab.pipeline.session import check_installed, open_session
from rmqlab.pipeline.spark.interrupts import plain_interrupts, silent_requests
from rmqlab.pipeline.spark.masters import LOCAL, is_local
from rmqlab.pipeline.spark.spark_home import Machine
from rmqlab.pipeline.spark.workers import check_shared_directory
from rmqlab.runtime.interrupts import as_ctrl_c
from rmqlab.runtime.journals.journalfiles import odd_journals
from rmqlab.runtime.text.errorline import print_error
from rmqlab.runtime.text.number_text import plain
from rmqlab.runtime.text.printable import printable
from rmqlab.store.offline.irregularfiles import irregular_paths
from rmqlab.store.offline.keptstores import no_stores_hint
from rmqlab.verdict.decision import is_notable
from rmqlab.verdict.runs import NoRunError, find_run, home, run_names
from rmqlab.verdict.verdict import Verdict

if TYPE_CHECKING:
    from rmqlab.pipeline.audit.audit import Summary

DEFAULT_NAME = "default"


def _complete_run(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in run_names(home()) if name.startswith(incomplete)]


run_name_argument = click.argument(
    "run",
    metavar="[CLUSTER|SCENARIO|DIRECTORY]",
    default=DEFAULT_NAME,
    shell_complete=_complete_run,
    help="A cluster's name, a scenario's (its newest run is meant), or a run's directory. [default]",
)
_Row = tuple[str, str, str, str]
_HEADER: _Row = ("metric", "value", "unit", "evidence, or what is missing")
_BELOW = "    "
_HEAP = re.compile(r"[1-9][0-9]*[kKmMgGtT]?")
"""Sizes that Java accepts."""
_STYLES = {"holds": "green", "violated": "red", "unknown": "yellow"}


class _AuditConsole(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Raise BrokenPipeError: rich ends with status 1, which is a verdict."""
        raise BrokenPipeError


console = _AuditConsole(highlight=False, markup=False, emoji=False)


@attrs.frozen(kw_only=True)
class SparkChoice:
    """Spark settings from the command line."""

    master: str
    memory: str | None
    """Heap of a local run's JVM; None selects it by the run's size."""
    settings: Mapping[str, str]
    py_files: tuple[str, ...]
    ship: bool


@click.command()
@run_name_argument
@click.option("--master", default=LOCAL, help="Where Spark runs: local[*], spark://host:port, ...")
@click.option("--memory", help="Heap of a local run, such as 4g; 1g or 2g if not given, by the run's size.")
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A Spark setting; overrides rmqlab's; repeatable.")
@click.option(
    "--py-files",
    default="",
    show_default=False,
    help="Modules and archives for the executors' import path, separated by commas.",
)
@click.option("--ship", is_flag=True, help="Send rmqlab to workers that lack it; they need pyspark, pyarrow and numpy.")
@click.option("with_report", "--report", is_flag=True, help="Make the page report.html, too.")
@click.option("every", "--all", "-a", is_flag=True, help="All metrics: also zero, unknown, and of single queues.")
@click.option("as_json", "--json", is_flag=True, help="Print JSON for programs.")
def audit(
    run: str,
    master: str,
    memory: str | None,
    conf: tuple[str, ...],
    py_files: str,
    *,
    ship: bool,
    with_report: bool,
    every: bool,
    as_json: bool,
) -> None:
    """Judge a run again on Spark, at any size: sent messages against all stores.

    Tables are kept as parquet in the run's directory, in `audit/`. Exit status 0: the verdict is
    `holds`. 1: `violated`. 2: `unknown`.
    """
    directory = _directory(run)
    _check_memory(memory)
    spark = SparkChoice(
        master=master,
        memory=memory,
        settings=_settings(conf),
        py_files=tuple(part.strip() for part in py_files.split(",") if part.strip()),
        ship=ship,
    )
    with _progress(is_shown=console.is_terminal and not as_json) as on_progress:
        summary, status = _judge(directory, spark, on_progress)
    if as_json:
        print(json.dumps(summary.as_json()))
    else:
        _show(summary.as_json(), every=every)
        if summary.verdict is Verdict.UNKNOWN and (hint := no_stores_hint(directory)):
            console.print(f"hint: {hint}", style="dim", soft_wrap=True)
        console.print(f"Tables: {summary.tables}", soft_wrap=True)
    if with_report:
        page = _write_page(directory)  # last: the verdict is printed even if the page cannot be written
        if not as_json:
            console.print(f"Report: {page}", soft_wrap=True)
    raise click.exceptions.Exit(status)


def _settings(pairs: Sequence[str]) -> dict[str, str]:
    """Parse `--conf KEY=VALUE` settings; exits the program if one has another form."""
    settings = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip().startswith("spark."):
            _fail(f"--conf {pair}: expected KEY=VALUE with a key of Spark's, such as spark.executor.memory=4g")
        settings[key.strip()] = value.strip()
    return settings


def _check_memory(memory: str | None) -> None:
    """Exit the program for a heap that no JVM accepts."""
    if memory is not None and not _HEAP.fullmatch(memory):
        _fail(f"--memory {memory}: expected a whole number with a unit (m or g), such as 4g")


def _check_folder(folder: Path) -> None:
    """Exit the program if an audit cannot write its tables into a directory."""
    if folder.exists() and not folder.is_dir():
        _fail(f"{folder} is not a directory: an audit writes its tables there. Rename it, and audit again")
    written = folder if folder.exists() else folder.parent
    if not os.access(written, os.W_OK | os.X_OK):
        _fail(
            f"{written} cannot be written: an audit writes its tables to {folder}. Audit as the user who owns it, or "
            "audit a copy of the run"
        )


@contextlib.contextmanager
def _progress(*, is_shown: bool) -> Iterator[Callable[[str], object]]:
    """Show a progress line, from the start of Spark on; it is erased at the end."""
    if not is_shown:
        yield lambda _: None
        return
    with console.status("audit: starting Spark") as status:
        yield lambda text: status.update(f"audit: {text}")


def _report_odd_files(directory: Path) -> None:
    """Print a line on stderr for each journal or store file that is not regular.

    Exits with the status of `unknown` if one of them is in a store: Spark would wait for a pipe in the place of a log.
    """
    for path in odd_journals(directory / "journal"):
        print(f"rmqlab: {path}: no regular file that can be read: expected the journal of {path.stem}", file=sys.stderr)
    odd = list(irregular_paths(directory))
    for path, why in odd:
        print(f"rmqlab: {path}: {why}", file=sys.stderr)
    if any(path.name != "store" or not os.access(path.parent, os.X_OK) for path, _ in odd):
        raise click.exceptions.Exit(Verdict.UNKNOWN.exit_status)


def _judge(directory: Path, choice: SparkChoice, on_progress: Callable[[str], object]) -> "tuple[Summary, int]":
    """Return the summary and its exit status; exits the program if the audit fails."""
    try:
        check_installed()
        from pyspark.errors import PySparkException  # noqa: PLC0415 - not without the extra

        from rmqlab.pipeline.audit.audit import FOLDER, audit_run  # noqa: PLC0415
        from rmqlab.pipeline.audit.size import SHORT_BYTES, Scale, bytes_to_read, scale_of  # noqa: PLC0415
        from rmqlab.pipeline.audit.sources import reading  # noqa: PLC0415

        _report_odd_files(directory)
        _check_folder(directory / FOLDER)
        byte_count = bytes_to_read(directory)
        scale = scale_of(byte_count)
        is_small = scale is Scale.SMALL
        machine = Machine(heap=choice.memory or ("1g" if is_small else "2g"), is_short=byte_count < SHORT_BYTES)
        settings = choice.settings
        try:
            with (
                as_ctrl_c(signal.SIGTERM),  # or the JVM would end in the middle of a query, and print its stack trace
                silent_requests(),
                reading(directory, directory / FOLDER, scale) as files,  # needs no JVM: it reads while one starts
                open_session(
                    choice.master, machine=machine, settings=settings, py_files=choice.py_files, ship=choice.ship
                ) as spark,
                plain_interrupts(),
            ):
                if not is_local(choice.master) and not is_small:  # a small run is written by this process
                    check_shared_directory(spark, directory / FOLDER)
                summary = audit_run(
                    spark, directory, scale=scale, files=files, given=settings.keys(), on_progress=on_progress
                )
                return summary, summary.verdict.exit_status
        except (PySparkException, UserError) as exc:
            _fail(f"the audit of {directory} failed: {_last_line(str(exc))}")
    except NoSparkError as exc:
        _fail(str(exc))
    except OSError as exc:
        _fail(f"{exc.filename or directory}: {exc.strerror}")


@click.command()
@run_name_argument
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write; report.html in the run's directory if not given."
)
def report(run: str, out: Path | None) -> None:
    """Write an HTML page about an audited run: verdict, timelines, evidence.

    The page also has plots. Run `rmqlab audit` first.
    """
    print(_write_page(_directory(run), out))


def _write_page(directory: Path, out: Path | None = None) -> Path:
    try:
        check_installed(("pyarrow",))
        from rmqlab.pipeline.report.page import NoAuditError, write_report  # noqa: PLC0415 - reads parquet: not without the extra
    except NoSparkError as exc:
        _fail(str(exc))
    try:
        return write_report(directory, out or directory / "report.html")
    except NoAuditError as exc:
        _fail(str(exc))


def _directory(run: str) -> Path:
    try:
        return find_run(run, home())
    except NoRunError as exc:
        _fail(str(exc))


def _show(document: dict[str, object], *, every: bool) -> None:
    findings = document["findings"]
    assert isinstance(findings, dict)
    rows = {metric: one for metric, one in findings.items() if every or is_notable(metric, one["value"])}
    _print_rows([_row(metric, one) for metric, one in rows.items()])
    if len(rows) < len(findings):
        hidden = len(findings) - len(rows)
        _print_line(Text(f"{hidden} metrics are zero, unknown or of single queues: --all shows them", "dim"))
    verdict, why, warnings = str(document["verdict"]), document["why"], document["warnings"]
    assert isinstance(why, list)
    assert isinstance(warnings, list)
    _print_line(Text.assemble((verdict, f"{_STYLES[verdict]} bold"), printable(f": {'; '.join(why)}")))
    for warning in warnings:
        _print_line(Text.assemble(("warning", "yellow"), printable(f": {warning}")))


def _print_line(line: Text) -> None:
    """Print a line; a narrow terminal shows it broken between words.

    Pipes get it whole.
    """
    console.print(line, soft_wrap=not console.is_terminal)


def _row(metric: str, one: Mapping[str, Any]) -> _Row:
    value = "unknown" if one["value"] is None else f"{'>= ' if one['at_least'] else ''}{plain(one['value'])}"
    said = one["missing"] or (one["evidence"][0]["says"] if one["evidence"] and one["value"] else "")
    return printable(metric), value, one["unit"], printable(said)


def _print_rows(rows: Sequence[_Row]) -> None:
    """Print a line for each metric, so that files and pipes can be searched for it.

    In a terminal that is too narrow for a line, the evidence is below it, with whole words.
    """
    widths = [max(cell_len(row[column]) for row in (_HEADER, *rows)) for column in range(3)]
    for row in (_HEADER, *rows):
        metric, value, unit, said = row
        value = " " * (widths[1] - cell_len(value)) + value
        head = f"{set_cell_size(metric, widths[0])}  {value}  {set_cell_size(unit, widths[2])}"
        style = "bold" if row is _HEADER else ""
        is_too_long = console.is_terminal and cell_len(head) + len("  ") + cell_len(said) > console.width
        console.print(Text(head if is_too_long else f"{head}  {said}".rstrip(), style), soft_wrap=True)
        if is_too_long:
            rows_below = textwrap.wrap(
                said, console.width - len(_BELOW), break_long_words=False, break_on_hyphens=False
            )
            for text in rows_below:
                console.print(Text(f"{_BELOW}{text}", style or "dim"), soft_wrap=True)


def _last_line(text: str) -> str:
    """Return the last line of a Python error in Spark, without the stack."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "SQLSTATE" not in line]
    ours = [line for line in lines if line.startswith("rmqlab.pipeline.")]
    return (ours or lines or [text])[-1]


def _fail(text: str) -> NoReturn:
    """Print an error to stderr, and exit with status 2.

    Status 1 would say that the verdict is `violated`.
    """
    print_error(text)
    raise click.exceptions.Exit(2)
