"""The commands that start and stop a cluster: up, down."""

import importlib
import os
import shutil
from collections.abc import Collection, Mapping
from typing import Any

import attrs
import click

from rmqlab.cluster.cli.number import Number
from rmqlab.cluster.cli.output.progress import working
from rmqlab.cluster.cli.settings import parse_setting, spelled, split_settings
from rmqlab.cluster.cli.terms import (
    DEFAULT_NAME,
    command,
    directory_of,
    fail,
    json_option,
    misused,
    name_option,
    print_json,
    print_lines,
)
from rmqlab.cluster.supervisor.check_settings import BadSettingsError, try_settings
from rmqlab.cluster.supervisor.command import explain_absence
from rmqlab.cluster.supervisor.detach import UpFailedError, run_detached
from rmqlab.cluster.supervisor.files.directory import AlreadyUpError, ClusterDirectory, Record, SetupError
from rmqlab.cluster.supervisor.plan.nodesettings import sets_to_try
from rmqlab.cluster.supervisor.plan.specs import check_spec, without_absent
from rmqlab.cluster.supervisor.plan.status import Document
from rmqlab.cluster.supervisor.plan.topology import (
    DLEDGER,
    MASTER_SLAVE,
    MODES,
    MOST_BROKERS,
    ClusterSpec,
    Placement,
    node_names,
    place,
)
from rmqlab.runtime.text.errorline import print_error
from rmqlab.verdict.runs import home

DEFAULT_REPLICAS = 3
_COUNTS = {"groups", "slaves", "replicas", "nameservers"}
UP_KEYS = ("name", "kind", "role", "broker_id", "address", "ha_address", "pid", "data_dir")


@click.command()
@name_option
@click.option("--groups", type=int, help="Broker groups: a master and its slaves each. [1]")
@click.option("--slaves", type=int, help="Slaves of each master. [1]")
@click.option("--mode", help="master-slave, or dledger: groups that elect their master. [master-slave]")
@click.option("--replicas", type=int, help="Members of each DLedger group. [3]")
@click.option("--nameservers", type=int, help="Nameservers. [1]")
@click.option("--role", help="SYNC_MASTER or ASYNC_MASTER. [ASYNC_MASTER]")
@click.option("--flush", help="ASYNC_FLUSH or SYNC_FLUSH. [ASYNC_FLUSH]")
@click.option("--profile", help="4.9, or hardened: all switches on (docs/switches.md). [4.9]")
@click.option("--rate", type=Number(), help="Cluster seconds per real second. [1]")
@click.option(
    "--single-address/--own-addresses", default=None, help="All nodes at 127.0.0.1, or an address for each. [own]"
)
@click.option(
    "settings",
    "--set",
    metavar="[TARGET:]KEY=VALUE",
    multiple=True,
    help="Add a setting of all brokers, or of a broker or a group, to those of the last start; repeatable.",
)
@click.option("--unset", metavar="[TARGET:]KEY", multiple=True, help="Remove such a setting; repeatable.")
@click.option(
    "--control", metavar="HOST:PORT", help="Serve the control API over HTTP; port 0: any (docs/control-api.md)."
)
@click.option("--detach", "-d", is_flag=True, help="Return when the cluster is ready.")
@click.option("--plain", is_flag=True, help="Events line by line, even in a terminal.")
@json_option
def up(
    name: str,
    groups: int | None,
    slaves: int | None,
    mode: str | None,
    replicas: int | None,
    nameservers: int | None,
    role: str | None,
    flush: str | None,
    profile: str | None,
    rate: float | None,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    control: str | None,
    *,
    single_address: bool | None,
    detach: bool,
    plain: bool,
    as_json: bool,
) -> None:
    """Start a cluster, and stop it at Ctrl-C (or, with --detach, at `rmqlab down`).

    Omitted options have the values of the last start of this cluster; [ ] shows the default of a new cluster.
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
    if directory.is_up():
        chosen = "" if name == DEFAULT_NAME else f" --name {name}"
        fail(
            f"cluster {directory.path.name} is already up: `rmqlab down{chosen}` stops it; `rmqlab add`, `rmqlab"
            " remove` and `rmqlab restart NODE --set KEY=VALUE` change it while it runs"
        )
    spec = build_spec(
        directory,
        {key: value for key, value in given.items() if value is not None},
        dict(map(parse_setting, settings)),
        unset,
    )
    if settings:
        _try(spec)
    if control is not None:
        _check_control(control)
    try:
        if detach:
            _start_detached(spec, directory, control, as_json=as_json)
        else:
            from rmqlab.cluster.cli.foreground import run_here  # noqa: PLC0415 -- a detached cluster needs none of it

            run_here(spec, directory, plain=plain, as_json=as_json, control=control)
    except (UpFailedError, SetupError) as exc:
        fail(str(exc))


def _start_detached(spec: ClusterSpec, directory: ClusterDirectory, control: str | None, *, as_json: bool) -> None:
    """Start a supervisor in the background; print the cluster when it is ready."""
    with working(f"starting {node_count(spec)} nodes"):
        meanwhile = (lambda: None) if as_json else _import_views
        document = run_detached(spec, directory, control=control, meanwhile=meanwhile)
    if as_json:
        print_json(up_document(document))
    else:
        _show_up(document)


def _import_views() -> None:
    """Import the modules of the live view while the cluster starts."""
    importlib.import_module("rmqlab.cluster.cli.output.tables")
    importlib.import_module("rmqlab.cluster.cli.output.screen")


def _show_up(document: Document) -> None:
    from rmqlab.cluster.cli.output.screen import console  # noqa: PLC0415 -- see `_import_views`
    from rmqlab.cluster.cli.output.tables import render_up  # noqa: PLC0415

    console.print(render_up(document))


@click.command()
@name_option
@click.option("--purge", is_flag=True, help="Also delete its stores, logs and addresses.")
def down(name: str, *, purge: bool) -> None:
    """Stop a cluster in order. Its data stay for the next `up`, unless purged."""
    directory = directory_of(name)
    was_up = directory.is_up()
    if was_up:
        command(name, "down")
    elif not directory.record_path.is_file() and not (purge and os.path.lexists(directory.record_path)):
        fail(explain_absence(directory))
    try:
        with working("stopping"), directory.locked(patient=True):  # returns once the supervisor has ended
            if purge:
                shutil.rmtree(directory.path)
    except AlreadyUpError as exc:
        fail(str(exc))
    done = "deleted" if purge else "stopped" if was_up else "already stopped"
    print_lines([f"cluster {directory.path.name} is {done}"])


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
        spec = attrs.evolve(before, **_of_mode(given, before, record))
        if _COUNTS & given.keys():  # new counts cancel earlier `add` and `remove` commands
            spec = without_absent(attrs.evolve(spec, added=(), removed=()))
        spec = attrs.evolve(spec, **_settings(spec, settings, unset))
        check_spec(spec)
        place(
            spec, Placement(subnet=None if spec.single_address else 1)
        )  # reject too many nodes now, not after the first have started
    except ValueError as exc:
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
        if not 1 <= given.get("replicas", DEFAULT_REPLICAS) <= MOST_BROKERS:
            misused(f"replicas = {given['replicas']}: expected an odd number, 1 to {MOST_BROKERS - 1}")
        options["slaves"] = given.get("replicas", DEFAULT_REPLICAS) - 1
    if record is not None and mode in MODES and mode != before.mode:
        misused(f"--mode {mode}: the stores of this cluster are of mode {before.mode}: `rmqlab down --purge` first")
    return options


def _settings(before: ClusterSpec, more: Mapping[str, Any], unset: Collection[str]) -> dict[str, Any]:
    """Return the settings of the last start with more of them, and without some."""
    flat = dict(before.broker_settings)
    flat |= {f"{target}:{key}": value for target, given in before.node_settings.items() for key, value in given.items()}
    for key in unset:
        if spelled(key) not in flat:
            misused(f"--unset {key}: the cluster has no such setting; it has: {', '.join(flat) or 'none'}")
    kept = {key: value for key, value in flat.items() if key not in map(spelled, unset)}
    of_all, of_targets = split_settings({**kept, **more})
    return {"broker_settings": of_all, "node_settings": of_targets}


def _try(spec: ClusterSpec) -> None:
    """Let a broker read its settings before anything starts.

    End the program if it rejects them.
    """
    try:
        for settings in sets_to_try(spec):
            for remark in try_settings(settings, spec.group_members):
                print_error(remark)
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


def up_document(document: Document) -> Document:
    """Return the document of `up --json`: the nodes and their addresses.

    `document` is that of the start (`rmqlab.cluster.supervisor.serve.WhenReady`).
    """
    nodes = [{key: node[key] for key in UP_KEYS} for node in document["nodes"]]
    more = {key: document[key] for key in ("control", "moved") if document.get(key)}
    return {"name": document["name"], "namesrv_addr": document["namesrv_addr"], "nodes": nodes, **more}


def node_count(spec: ClusterSpec) -> int:
    """Return how many nodes a cluster begins with."""
    return sum(map(len, node_names(spec)))
