"""Commands that only read: status, logs, events.

Modules that render text are imported where they are used: they need rich, and `--json` does not.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import click

from rmqlab.cluster.cli.completion import complete_kind, complete_node
from rmqlab.cluster.cli.interruption import ending_at_ctrl_c
from rmqlab.cluster.cli.terms import (
    ask_quietly,
    command,
    directory_of,
    fail,
    json_option,
    misused,
    name_option,
    print_json,
    record_of,
    target_argument,
)
from rmqlab.cluster.supervisor.command import (
    CommandFailedError,
    CommandUsageError,
    SupervisorEndedError,
    ask_stream,
    explain_absence,
)
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, NoClusterError, Record
from rmqlab.cluster.supervisor.files.logs import LogTail, last_lines
from rmqlab.cluster.supervisor.plan.status import Document
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import Node, UnknownTargetError
from rmqlab.runtime.journals.journalentry import MESSAGE_KINDS, VERSION, JournalEntry
from rmqlab.runtime.journals.journalfiles import SUFFIX, SUPERVISOR, journal_files
from rmqlab.runtime.journals.journalreader import read_journals

if TYPE_CHECKING:
    from rmqlab.cluster.supervisor.plan.eventfilter import EventFilter

follow_option = click.option("--follow", "-f", is_flag=True, help="Then show new ones, until Ctrl-C.")

LINES = "Number of latest lines to show."
STOPPED = 3
"""Exit status of `status` for a cluster that does not run, as of service managers."""
_WATCH_SECONDS = 1.0
_LOG_SECONDS = 0.1


@click.command()
@name_option
@json_option
@click.option("--watch", "-w", is_flag=True, help="Repeat every second, until Ctrl-C.")
def status(name: str, *, as_json: bool, watch: bool) -> None:
    """Show nodes, replication lag, and the routes of each nameserver, as reported now.

    Of a stopped cluster, show what is on disk; the exit status is then 3.
    """
    _show_stopped(directory_of(name), as_json=as_json)
    if watch:
        with ending_at_ctrl_c():
            _watch(name, as_json=as_json)
    elif as_json:
        print_json(command(name, "status"))
    else:
        from rmqlab.cluster.cli.output.screen import console  # noqa: PLC0415 -- see above
        from rmqlab.cluster.cli.output.tables import render_status  # noqa: PLC0415 -- see above

        console.print(render_status(command(name, "status")))


def _watch(name: str, *, as_json: bool) -> None:
    if as_json:
        for document in _statuses(name):
            print_json(document)
        return
    from rich.live import Live  # noqa: PLC0415 -- see above

    from rmqlab.cluster.cli.output.screen import live_console  # noqa: PLC0415 -- see above
    from rmqlab.cluster.cli.output.tables import render_status  # noqa: PLC0415 -- see above

    if not live_console.is_terminal or live_console.is_dumb_terminal:  # cannot draw over what they show
        for document in _statuses(name):
            live_console.print(render_status(document))
            live_console.print()
        return
    with Live(console=live_console, auto_refresh=False) as live:
        for document in _statuses(name):
            live.update(render_status(document), refresh=True)


def _show_stopped(directory: ClusterDirectory, *, as_json: bool) -> None:
    """Show a cluster that does not run, and exit. Return if it runs, or is unknown."""
    if directory.is_up() or (record := record_of(directory)) is None:
        return
    from rmqlab.cluster.cli.output.screen import console  # noqa: PLC0415 -- see above
    from rmqlab.cluster.cli.overview import describe_stopped, render_stopped  # noqa: PLC0415 -- see above

    document = describe_stopped(directory, record)
    print_json(document) if as_json else console.print(render_stopped(document))
    raise click.exceptions.Exit(STOPPED)


def _statuses(name: str) -> Iterator[Document]:
    """Yield the status now and every second."""
    yield command(name, "status")
    while True:
        time.sleep(_WATCH_SECONDS)  # the rate of the display: offsets change without an event
        yield ask_quietly(name, "status")


@click.command()
@target_argument
@name_option
@click.option("--lines", "-l", type=click.IntRange(min=0), default=20, help=LINES)
@follow_option
def logs(target: str, name: str, lines: int, *, follow: bool) -> None:
    """Show the logs of nodes, also of a stopped cluster.

    `supervisor` is a target, too.
    """
    from rmqlab.cluster.cli.output.event_lines import render_log_line  # noqa: PLC0415 -- see above
    from rmqlab.cluster.cli.output.screen import console  # noqa: PLC0415 -- see above

    directory = directory_of(name)
    record = _record(directory)
    if target == "supervisor":
        paths = {"supervisor": directory.supervisor_log}
    else:
        paths = {node.name: directory.log_path(node.name) for node in _find(target, record)}
    with ending_at_ctrl_c(is_expected=follow), contextlib.ExitStack() as stack:
        tails: dict[str, LogTail] = {}
        for node, path in paths.items():
            for line in last_lines(path, lines) if lines else []:
                console.print(render_log_line(node, line))
            if follow:
                tails[node] = stack.enter_context(contextlib.closing(LogTail(path)))
        if follow:
            _follow_logs(tails)


def _follow_logs(tails: Mapping[str, LogTail]) -> None:
    from rmqlab.cluster.cli.output.event_lines import render_log_line  # noqa: PLC0415 -- see above
    from rmqlab.cluster.cli.output.screen import console  # noqa: PLC0415 -- see above

    while True:
        for node, tail in tails.items():
            for line in tail.added_lines():
                console.print(render_log_line(node, line))
        time.sleep(_LOG_SECONDS)  # Python has no portable way to wait until a file grows


@click.command()
@name_option
@click.option("--lines", "-l", type=click.IntRange(min=0), default=50, help=LINES)
@follow_option
@click.option("every", "--all", "-a", is_flag=True, help="Include each message of workloads.")
@click.option(
    "kinds",
    "--kind",
    "-k",
    metavar="KIND",
    multiple=True,
    shell_complete=complete_kind,
    help="Only events of this kind; repeatable.",
)
@click.option(
    "nodes",
    "--node",
    metavar="NODE",
    multiple=True,
    shell_complete=complete_node,
    help="Only events of this node or workload; `cluster`: of none of them; repeatable.",
)
@click.option("--schema", is_flag=True, help="Show the kinds of events and their fields, and exit.")
@json_option
def events(
    name: str,
    lines: int,
    *,
    follow: bool,
    every: bool,
    kinds: tuple[str, ...],
    nodes: tuple[str, ...],
    schema: bool,
    as_json: bool,
) -> None:
    """Show events, in the order in which the supervisor received them.

    Of a stopped cluster, from its journals.

    Without --all, single messages of workloads are left out.
    """
    if schema:
        _print_schema(as_json=as_json)
        return
    directory = directory_of(name)
    try:
        with ending_at_ctrl_c(is_expected=follow):
            for item in ask_stream(directory, "events", last=lines, follow=follow, every=every, kind=kinds, node=nodes):
                if item.value is not None:
                    _print_event(item.value, as_json=as_json)
    except NoClusterError as exc:
        known = read_journals(directory.journal_dir)
        if not known:
            misused(str(exc))
        if follow:
            fail(str(exc))
        wanted = _event_filter(directory, kinds, nodes)
        every = every or wanted.has_messages
        shown = [event for event in known if (every or event.kind not in MESSAGE_KINDS) and wanted.wants(event)]
        for event in shown[max(0, len(shown) - lines) :]:
            _print_event(event.as_json(), as_json=as_json)
        _name_missing_journals(directory, known)
    except CommandUsageError as exc:
        misused(str(exc))
    except CommandFailedError as exc:
        if not (follow and isinstance(exc, SupervisorEndedError)):
            fail(str(exc))


def _name_missing_journals(directory: ClusterDirectory, known: Iterable[JournalEntry]) -> None:
    """Print a line on stderr for each journal that is missing or cannot be read.

    A process should have one if it was ready, or belongs to the cluster.
    """
    present = {path.stem for path in journal_files(directory.journal_dir)}
    ran = {event.node for event in known if event.kind == "node_ready" and event.node}
    if SUPERVISOR not in present:  # it has the events of processes that started
        record = record_of(directory)
        ran |= {SUPERVISOR, *(node.name for node in (record.nodes() if record is not None else ()))}
    for name in sorted(ran - present):
        path = directory.journal_dir / f"{name}{SUFFIX}"
        problem = "cannot be read" if os.path.lexists(path) else "is missing"
        click.echo(f"rmqlab: journal/{path.name} {problem}: its events are not shown", err=True)


def _event_filter(directory: ClusterDirectory, kinds: Sequence[str], nodes: Sequence[str]) -> "EventFilter":
    """Return the filter for the journals of a stopped cluster.

    Exit for an unknown kind or node.
    """
    from rmqlab.cluster.supervisor.plan.eventfilter import EventFilter, UnknownKindError  # noqa: PLC0415 -- imports faults

    try:
        return EventFilter.of(kinds, nodes, [path.stem for path in journal_files(directory.journal_dir)])
    except (UnknownKindError, UnknownTargetError) as exc:
        misused(str(exc))


def _print_schema(*, as_json: bool) -> None:
    from rmqlab.runtime.journals.schema import EVENT_TYPES  # noqa: PLC0415 -- only this option needs all kinds

    if as_json:
        print_json({"version": VERSION, "kinds": [attrs.asdict(kind) for kind in EVENT_TYPES.values()]})
    else:
        from rmqlab.cluster.cli.output.event_lines import render_schema  # noqa: PLC0415 -- see above
        from rmqlab.cluster.cli.output.screen import console  # noqa: PLC0415 -- see above

        console.print(render_schema(EVENT_TYPES.values()))


def _print_event(event: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(event)
    else:
        from rmqlab.cluster.cli.output.event_lines import event_line  # noqa: PLC0415 -- see above
        from rmqlab.cluster.cli.output.screen import console  # noqa: PLC0415 -- see above

        console.print(event_line(event))


def _record(directory: ClusterDirectory) -> Record:
    record = record_of(directory)
    if record is None:
        misused(explain_absence(directory))
    return record


def _find(target: str, record: Record) -> list[Node]:
    try:
        return find_targets(target, record.nodes())
    except UnknownTargetError as exc:
        misused(str(exc))
