"""diff: where the commit logs of two brokers differ.

Reads their files; the brokers may be running.
"""

from pathlib import Path
from typing import Any

import attrs
import click
from rich.text import Text

from rmqlab.cluster.cli.output.logcomparison import render_comparison
from rmqlab.cluster.cli.output.progress import working
from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.terms import directory_of, json_option, misused, name_option, print_json
from rmqlab.cluster.supervisor.command import explain_absence
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, NoClusterError, RecordError
from rmqlab.cluster.supervisor.files.nodestore import store_config
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import NodeKind, UnknownTargetError
from rmqlab.store.files.disk import StoreError
from rmqlab.store.offline.compare import SHOWN, Comparison, LogImage, Verdict, compare_logs

_EXIT = {Verdict.EQUAL: 0, Verdict.DIFFERENT: 1, Verdict.UNKNOWN: 2}

_WHICH = "A broker (broker-a:master, broker-a-s), or a store's directory."


@click.command()
@click.argument("a", help=_WHICH)
@click.argument("b", help=_WHICH)
@name_option
@click.option("--lines", "-l", type=click.IntRange(min=0), default=SHOWN, help="Messages to list of each side.")
@json_option
def diff(a: str, b: str, name: str, lines: int, *, as_json: bool) -> None:
    """Compare two commit logs: common range, first different byte, affected messages.

    Exit status 0: the same bytes and the same end. 1: different. 2: no common range, or no such store.
    """
    directory = directory_of(name)
    try:
        with (
            working(f"comparing {a} and {b}"),
            LogImage.open(log_directory(a, directory)) as ours,
            LogImage.open(log_directory(b, directory)) as theirs,
        ):
            comparison = compare_logs(ours, theirs, shown=lines)
    except (StoreError, NoClusterError, RecordError, UnknownTargetError) as exc:
        misused(str(exc))
    except OSError as exc:
        misused(f"{exc.filename or name}: {exc.strerror}")
    if as_json:
        print_json(comparison_document(comparison, a, b))
    else:
        console.print(Text("\n").join(render_comparison(comparison_document(comparison, a, b))))
    raise click.exceptions.Exit(_EXIT[comparison.verdict])


def log_directory(target: str, directory: ClusterDirectory) -> Path:
    """Return the commit log of a broker, or of the store at a path.

    A target is a path if it exists or contains a slash. The directory of a node has its store in `store`.
    """
    if "/" in target or Path(target).is_dir():
        path = Path(target)
        return path / "store" if (path / "store").is_dir() else path
    record = directory.read_record()
    if record is None:
        raise NoClusterError(f"{target!r} is not a directory, and {explain_absence(directory)}")
    found = find_targets(target, record.nodes())
    if found[0].kind is not NodeKind.BROKER:
        raise UnknownTargetError(
            f"{target} is a {found[0].kind}: only brokers, and directories of stores, have commit logs"
        )
    if len(found) > 1:
        raise UnknownTargetError(f"{target} means {', '.join(node.name for node in found)}: name one of them")
    return store_config(directory, found[0].name).store_path_root_dir


def comparison_document(comparison: Comparison, a: str, b: str) -> dict[str, Any]:
    """Return the document that `diff --json` prints."""
    document = attrs.asdict(comparison)
    for key, target in (("a", a), ("b", b)):
        document[key] = {"target": target, **document[key]}
    return document
