"""Values that the shell completes: names of clusters and scenarios, and targets.

Targets come from the records of clusters only.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, Record
from rmqlab.verdict.runs import home, run_names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_cluster(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of clusters that begin with `incomplete`."""
    names = (path.parent.name for path in home().glob("*/cluster.json"))
    return sorted(name for name in names if name.startswith(incomplete))


def complete_run(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the clusters and scenarios with a run that begin with `incomplete`."""
    return [name for name in run_names(home()) if name.startswith(incomplete)]


def complete_target(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return matching nodes, roles and groups of the cluster of `--name`."""
    record = _record(str(ctx.params.get("name") or "default"))
    return [target for target in _targets(record) if target.startswith(incomplete)] if record else []


def complete_node(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return matching nodes of the cluster of `--name`."""
    record = _record(str(ctx.params.get("name") or "default"))
    return [node.name for node in record.nodes() if node.name.startswith(incomplete)] if record else []


def complete_scenario(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return the canonical scenarios that begin with `incomplete`.

    Without one, the shell completes a path.
    """
    from click.shell_completion import CompletionItem  # noqa: PLC0415 -- only shells need it

    from rmqlab.cluster.scenario.catalogue import canonical_scenarios  # noqa: PLC0415 -- commands load it if needed

    names = sorted(name for name in canonical_scenarios() if name.startswith(incomplete))
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


def complete_kind(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the kinds of events that begin with `incomplete`."""
    from rmqlab.runtime.journals.schema import EVENT_TYPES  # noqa: PLC0415 -- only this option needs all kinds

    return [kind for kind in EVENT_TYPES if kind.startswith(incomplete)]


def completion_script(shell: str) -> str:
    """Return the script that makes a shell complete; UsageError for an unknown shell."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 -- used once in the life of a shell

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"--show-completion {shell}: expected bash, zsh or fish")
    return found(click.get_current_context().command, {}, "rmqlab", "_RMQLAB_COMPLETE").source()


def _record(name: str) -> Record | None:
    with contextlib.suppress(Exception):  # an error would be printed into the command line that is being typed
        return ClusterDirectory.named(name).read_record()
    return None


def _targets(record: Record) -> Iterator[str]:
    nodes = record.nodes()
    yield from (node.name for node in nodes)
    for group in _unique(node.group for node in nodes):
        yield from (f"{group}:master", f"{group}:slave", f"{group}:*")


def _unique(groups: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(filter(None, groups)))
