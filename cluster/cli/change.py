"""Commands that change which nodes a running cluster has: add, remove."""

from typing import Any

import click

from rmqlab.cluster.cli.group import CommandGroup
from rmqlab.cluster.cli.settings import parse_settings, set_option
from rmqlab.cluster.cli.terms import command, json_option, name_option, print_json, print_lines

add_app = CommandGroup("add", help="Add a group, a slave or a nameserver to a running cluster.")

settings_option = set_option("Setting of its brokers; overrides that of the cluster; repeatable.")


@add_app.command("group")
@click.argument("group", default="", help="A removed group, to bring it back; a new one if not given.")
@settings_option
@name_option
@json_option
def add_group(group: str, settings: tuple[str, ...], name: str, *, as_json: bool) -> None:
    """Add a master and as many slaves as the other groups began with."""
    _add(name, "group", group, settings, as_json=as_json)


@add_app.command("slave")
@click.argument("group", help="The group of the new slave, or a removed slave.")
@settings_option
@name_option
@json_option
def add_slave(group: str, settings: tuple[str, ...], name: str, *, as_json: bool) -> None:
    """Add a slave to a group. It replicates its master's log from the beginning."""
    _add(name, "slave", group, settings, as_json=as_json)


@add_app.command("nameserver")
@click.argument("nameserver", default="", help="A removed one, to bring it back; a new one if not given.")
@name_option
@json_option
def add_nameserver(nameserver: str, name: str, *, as_json: bool) -> None:
    """Add a nameserver, and give its address to the brokers.

    They register there with their next registration: within 30 s of the cluster's clock. Running clients do not learn
    of it.
    """
    _add(name, "nameserver", nameserver, (), as_json=as_json)


@click.command()
@click.argument("target", help="broker-a-s, namesrv-2, broker-b:* (a group), broker-a:master, broker-a:slave.")
@name_option
@json_option
def remove(target: str, name: str, *, as_json: bool) -> None:
    """Stop nodes and take them out of a running cluster; their data stay on disk.

    `rmqlab add` with the node's or the group's name brings it back with its address and its data.
    """
    document = command(name, "remove", target=target)
    if as_json:
        print_json(document)
    else:
        print_lines(f"{node['name']} is removed; its data stay in {node['data_dir']}" for node in document)


def _add(name: str, kind: str, of: str, settings: tuple[str, ...], *, as_json: bool) -> None:
    given = parse_settings(settings)
    document = command(name, "add", kind=kind, of=of, settings=given)
    if as_json:
        print_json(document)
        return
    print_lines(f"{node['name']} is {node['state']} at {node['address']} (pid {node['pid']})" for node in document)
    if kind == "nameserver":
        print_lines(_notes(document[0]))


def _notes(nameserver: dict[str, Any]) -> list[str]:
    lines = ["brokers register with it within 30 s; running clients keep their list of nameservers"]
    if names := nameserver["uninformed"]:
        lines.append(f"{', '.join(names)}: the new list was not accepted; `rmqlab restart` makes a broker read it")
    return lines
