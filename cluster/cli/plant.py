"""The command that plants a violation in the copy of a run, to test the judges."""

from pathlib import Path

import click

from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.terms import fail, json_option, misused, print_json, run_directory
from rmqlab.cluster.plant.kinds import KINDS
from rmqlab.cluster.plant.model import Kind, NothingToPlantError, Planted
from rmqlab.cluster.plant.planting import plant as plant_violation
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.runtime.text.nearmiss import near_miss

_KIND_HELP = "What to plant; without it, all kinds are listed."


@click.command()
@click.argument(
    "run", metavar="CLUSTER|SCENARIO|DIRECTORY", help="A cluster's name, a scenario's (its newest run), or a directory."
)
@click.argument("kind", default=None, help=_KIND_HELP)
@click.option("--seed", type=click.IntRange(min=1), default=1, help="Decides where it is planted.")
@click.option(
    "--at", metavar="NODE", default="", show_default=False, help="Plant it at this node; else the seed decides."
)
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the copy; RUN-KIND-SEED if not given.")
@json_option
def plant(run: str, kind: str | None, seed: int, at: str, out: Path | None, *, as_json: bool) -> None:
    """Copy a run, plant one violation in the copy, and print the expected findings.

    The run itself is not changed. Judge the copy with `rmqlab check DIRECTORY` and `rmqlab audit DIRECTORY`.
    """
    directory = ClusterDirectory.at(run_directory(run))
    if kind is None:
        if at or out:
            misused(f"{'--at' if at else '--out'} needs a KIND; rmqlab plant {run} lists the kinds")
        _list_kinds(as_json=as_json)
        return
    if directory.is_up():
        fail(f"cluster {run} is up, and a copy would be torn; stop it with rmqlab down")
    chosen = _kind_of(kind)
    target = out or directory.path.with_name(f"{directory.path.name}-{kind}-{seed}")
    try:
        planted = plant_violation(directory.path, chosen, target, seed=seed, at=at)
    except NothingToPlantError as exc:
        fail(f"{kind}: {exc}")
    except FileExistsError:
        misused(f"{target} exists already; --out DIRECTORY names another place for the copy")
    except OSError as exc:
        fail(f"{exc.filename}: {exc.strerror}")
    if as_json:
        print_json(planted.as_json())
    else:
        _show(planted)


def _kind_of(name: str) -> Kind:
    if name not in KINDS:
        misused(f"unknown kind {name}" + (near_miss(name, KINDS, most=3) or f"; kinds: {', '.join(KINDS)}"))
    return KINDS[name]


def _list_kinds(*, as_json: bool) -> None:
    if as_json:
        print_json([{"kind": kind.name, "does": kind.does} for kind in KINDS.values()])
        return
    width = max(map(len, KINDS))
    for kind in KINDS.values():
        console.print(f"{kind.name:{width}}  {kind.does}")


def _show(planted: Planted) -> None:
    console.print(f"{planted.kind.name}: {planted.kind.does}")
    console.print(f"copy: {planted.directory}")
    for edit in planted.change.edits:
        place = edit.file if edit.offset is None else f"{edit.file} at byte {edit.offset}"
        console.print(f"{edit.node}: {place}: {edit.text}")
    for report in planted.reports:
        ids = f": {', '.join(report.message_ids)}" if report.message_ids else ""
        unknown = " unknown" if report.is_unknown else ""
        console.print(f"a judge must report {report.metric}{unknown}{ids}")
