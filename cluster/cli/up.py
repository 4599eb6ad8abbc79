"""The commands that start and stop a cluster: up, down."""

import contextlib
import shutil
import sys
import tomllib
from collections.abc import Collection, Mapping
from typing import Annotated, Any

import attrs
import cattrs
import typer

from rmqlab.cluster.cli.event_lines import render_event
from rmqlab.cluster.cli.live.subject import OwnCluster
from rmqlab.cluster.cli.live.terminal import LiveView, is_terminal
from rmqlab.cluster.cli.progress import Progress, working
from rmqlab.cluster.cli.tables import render_up
from rmqlab.cluster.cli.terms import (
    DEFAULT_NAME,
    AsJson,
    Name,
    command,
    console,
    directory_of,
    error_text,
    fail,
    live_console,
    misused,
    print_json,
)
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.check_settings import BadSettingsError, try_settings
from rmqlab.cluster.supervisor.command import explain_absence
from rmqlab.cluster.supervisor.directory import AlreadyUpError, ClusterDirectory, NoPlaceError, Record, home
from rmqlab.cluster.supervisor.serve import UpFailedError, WhenReady, run_detached, run_foreground
from rmqlab.cluster.supervisor.status import Document
from rmqlab.cluster.supervisor.topology import (
    DLEDGER,
    MASTER_SLAVE,
    ClusterSpec,
    Placement,
    check_spec,
    node_names,
    place,
)
from rmqlab.runtime.logfile import log_to_file
from rmqlab.runtime.settings import snake

DEFAULT_REPLICAS = 3
UP_KEYS = ("name", "kind", "role", "broker_id", "address", "ha_address", "pid", "data_dir")


def up(
    name: Name = DEFAULT_NAME,
    groups: Annotated[int | None, typer.Option(help="Broker groups: a master and its slaves each. [1]")] = None,
    slaves: Annotated[int | None, typer.Option(help="Slaves of each master. [1]")] = None,
    mode: Annotated[
        str | None, typer.Option(help="master-slave, or dledger: groups that elect their master. [master-slave]")
    ] = None,
    replicas: Annotated[int | None, typer.Option(help="Members of each DLedger group. [3]")] = None,
    nameservers: Annotated[int | None, typer.Option(help="Nameservers. [1]")] = None,
    role: Annotated[str | None, typer.Option(help="SYNC_MASTER or ASYNC_MASTER. [ASYNC_MASTER]")] = None,
    flush: Annotated[str | None, typer.Option(help="ASYNC_FLUSH or SYNC_FLUSH. [ASYNC_FLUSH]")] = None,
    profile: Annotated[
        str | None, typer.Option(help="4.9, or hardened: all switches on (docs/switches.md). [4.9]")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Cluster seconds per real second. [1]")] = None,
    single_address: Annotated[
        bool | None,
        typer.Option("--single-address/--own-addresses", help="All nodes at 127.0.0.1, or an address for each. [own]"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Add a broker setting to those of the last start; repeatable."),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Remove a broker setting; repeatable.")
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve the control API over HTTP; port 0: any (docs/control-api.md)."),
    ] = None,
    *,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when the cluster is ready.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Events line by line, even in a terminal.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start a cluster, and stop it at Ctrl-C (or, with --detach, at `rmqlab down`).

    Options that are left out are as at the last start of this cluster; [ ] shows the default of a new one.
    """
    given = {
        "groups": groups,
        "slaves": slaves,
        "mode": mode,
        "replicas": replicas,
        "nameservers": nameservers,
        "role": role,
        "flush": flush,
        "profile": profile,
        "rate": rate,
        "single_address": single_address,
    }
    directory = directory_of(name)
    spec = build_spec(
        directory,
        {key: value for key, value in given.items() if value is not None},
        dict(map(parse_setting, settings or [])),
        unset or [],
    )
    if settings:
        _try(spec)
    if control is not None:
        _check_control(control)
    try:
        if detach:
            with working(f"starting {node_count(spec)} nodes"):
                document = run_detached(spec, directory, control=control)
            if as_json:
                print_json(up_document(document))
            else:
                console.print(render_up(document))
        else:
            is_live = not plain and not as_json and is_terminal(live_console)
            _run_here(spec, directory, _follow_as_json if as_json else _show_live if is_live else _follow, control)
            if not as_json:
                _print_if_possible("stopped")
    except (UpFailedError, NoPlaceError) as exc:
        fail(str(exc))


def down(
    name: Name = DEFAULT_NAME,
    *,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete its stores, logs and addresses.")] = False,
) -> None:
    """Stop a cluster in order. Its data stay for the next `up`, unless purged."""
    directory = directory_of(name)
    if directory.is_up():
        command(name, "down")
    elif not directory.record_path.exists():
        fail(explain_absence(directory))
    try:
        with working("stopping"), directory.locked(patient=True):  # returns once the supervisor has ended
            if purge:
                shutil.rmtree(directory.path)
    except AlreadyUpError as exc:
        fail(str(exc))


def build_spec(
    directory: ClusterDirectory, given: Mapping[str, Any], settings: Mapping[str, Any], unset: Collection[str]
) -> ClusterSpec:
    """Merge the options with those of the last start.

    Broker settings are merged key by key.
    """
    try:
        record = directory.read_record()
        if record is None and directory.path.parent != home():
            misused(f"no cluster in {directory.path}: expected a run's directory, or a name without / for a new one")
        before = record.spec if record else ClusterSpec(name=directory.path.name)
        kept = _without(before.broker_settings, unset)
        spec = attrs.evolve(before, **_of_mode(given, before, record), broker_settings={**kept, **settings})
        check_spec(spec)
        place(spec, Placement(subnet=1))  # reject too many nodes now, not after the first have started
    except (ValueError, cattrs.BaseValidationError) as exc:
        misused(str(exc.args[0] if exc.args else exc))
    return spec


def _of_mode(given: Mapping[str, Any], before: ClusterSpec, record: Record | None) -> dict[str, Any]:
    """Return options that fit the mode; members of a DLedger group become slaves.

    End the program for options of the other mode, and for a cluster whose stores are of the other mode.
    """
    mode = given.get("mode", before.mode)
    options = {key: value for key, value in given.items() if key != "replicas"}
    if mode != DLEDGER:
        if "replicas" in given:
            misused("--replicas: only of DLedger groups: use --slaves, or --mode dledger")
    elif wrong := {"slaves", "role"} & given.keys():
        misused(f"--{min(wrong)}: a DLedger group elects its master: use --replicas, or --mode {MASTER_SLAVE}")
    elif "replicas" in given or before.mode != DLEDGER:
        options["slaves"] = given.get("replicas", DEFAULT_REPLICAS) - 1
    if record is not None and mode != before.mode:
        misused(f"--mode {mode}: the stores of this cluster are of mode {before.mode}: `rmqlab down --purge` first")
    return options


def _without(settings: Mapping[str, Any], unset: Collection[str]) -> dict[str, Any]:
    for key in unset:
        if snake(key) not in settings:
            misused(f"--unset {key}: not set; set are: {', '.join(settings) or 'none'}")
    return {key: value for key, value in settings.items() if key not in map(snake, unset)}


def _try(spec: ClusterSpec) -> None:
    """Let a broker read its settings before anything starts.

    End the program if it rejects them.
    """
    try:
        for remark in try_settings(spec.broker_settings, spec.group_members):
            print(error_text(remark), file=sys.stderr)
    except BadSettingsError as exc:
        misused(f"--set: {exc}")


def _check_control(address: str) -> None:
    """End the program for an address or a token of the control API that is invalid."""
    from rmqlab.cluster.control.access import (  # noqa: PLC0415 -- loaded only when asked for
        ControlAddressError,
        chosen_token,
        parse_control_address,
    )

    try:
        parse_control_address(address)
        chosen_token()
    except ControlAddressError as exc:
        misused(f"--control {exc}")


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse `key=value`.

    The key may be in camelCase; a value that is not a TOML scalar is a string.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        misused(f"--set {text}: expected KEY=VALUE, such as --set syncFlushTimeout=3000")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return snake(key.strip()), value
    if parsed.keys() == {"value"} and isinstance(parsed["value"], (str, bool, int, float)):
        return snake(key.strip()), parsed["value"]
    return snake(key.strip()), value  # a date, a list or several lines: brokers take them as text


def up_document(document: Document) -> Document:
    """Return what `up --json` prints: the nodes and their addresses.

    `document` is that of the start (`rmqlab.cluster.supervisor.serve.WhenReady`).
    """
    nodes = [{key: node[key] for key in UP_KEYS} for node in document["nodes"]]
    more = {key: document[key] for key in ("control", "moved") if document.get(key)}
    return {"name": document["name"], "namesrv_addr": document["namesrv_addr"], "nodes": nodes, **more}


def node_count(spec: ClusterSpec) -> int:
    """Return how many nodes a cluster begins with."""
    return sum(map(len, node_names(spec)))


def _run_here(spec: ClusterSpec, directory: ClusterDirectory, ready: WhenReady, control: str | None) -> None:
    """Supervise the cluster until it ends; show the progress of its start."""
    progress = Progress()
    count = node_count(spec)

    def started(cluster: Cluster) -> None:
        lives = cluster.supervisor.processes.lives

        def how_far() -> str:
            return f"starting: {sum(life.ready is not None for life in [*lives.values()])} of {count} nodes are ready"

        progress.begin(how_far)

    async def when_ready(cluster: Cluster, document: Document) -> None:
        progress.end()
        await ready(cluster, document)

    try:
        directory.create()
        log_to_file(directory.supervisor_log)
        run_foreground(spec, directory, when_ready, started=started, control=control)
    finally:
        progress.end()


async def _show_live(cluster: Cluster, document: Document) -> None:
    """Print the nodes, which stay on the terminal, and show the live view."""
    console.print(render_up(document))
    try:
        await LiveView(OwnCluster(cluster), live_console, document).run(sys.stdin.fileno())
    finally:
        _print_if_possible("\nstopping all nodes ...")


def _print_if_possible(text: str) -> None:
    """Print a line; ignore that the terminal was closed."""
    with contextlib.suppress(OSError):
        console.print(text)


async def _follow(cluster: Cluster, document: Document) -> None:
    console.print(render_up(document))
    console.print("\nCtrl-C stops it. Events:", style="dim")
    async with cluster.events.follow() as events:
        async for event in events:
            console.print(render_event(event.as_json()))


async def _follow_as_json(cluster: Cluster, document: Document) -> None:
    print_json(up_document(document))
    async with cluster.events.follow() as events:
        async for event in events:
            print_json(event.as_json())
