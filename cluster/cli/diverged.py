"""diverged: messages that a slave cut from its log, and sending them again."""

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import click
import trio

from rmqlab.cluster.cli.output.event_lines import clock_text
from rmqlab.cluster.cli.output.progress import working
from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.output.uncuttable import UncutTable
from rmqlab.cluster.cli.terms import (
    ask_quietly,
    directory_of,
    fail,
    json_option,
    misused,
    name_option,
    print_json,
    record_of,
)
from rmqlab.cluster.diverged.listing import DivergedMessage, Listing, list_diverged
from rmqlab.cluster.diverged.resend import SKIPPED, Resent, as_sent, resend
from rmqlab.cluster.supervisor.command import explain_absence
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind, UnknownTargetError
from rmqlab.remoting.message import PROPERTY_KEYS, RecordError
from rmqlab.runtime.text.printable import printable
from rmqlab.verdict.outcomes import STORED

_SHOWN = 20


@click.command()
@click.argument("node", help="A broker: broker-a, broker-a-s, broker-a:slave.")
@name_option
@click.option("--export", type=click.Path(path_type=Path), help="Write the messages to this new file, as JSON lines.")
@click.option("--lines", "-l", type=click.IntRange(min=0), default=_SHOWN, help="Messages to list, and outcomes.")
@click.option("resends", "--resend", is_flag=True, help="Send them again, under their unique keys.")
@click.option("even_if_stored", "--all", is_flag=True, help="With --resend: also those that a log of the group has.")
@json_option
def diverged(
    node: str, name: str, export: Path | None, lines: int, *, resends: bool, even_if_stored: bool, as_json: bool
) -> None:
    """List, export or send again the messages that a slave cut from its log.

    A slave with ha_truncate_diverged keeps them in store/diverged/. Exit status 1: not all could be sent, or a saved
    file is damaged.
    """
    directory = directory_of(name)
    if (record := record_of(directory)) is None:
        misused(explain_absence(directory))
    nodes = record.nodes()
    broker = _broker(node, nodes)
    try:
        with working(f"reading the logs of {broker.group}"):
            listing = list_diverged(directory, broker, nodes)
        if export is not None:
            _export(listing, export)
    except FileExistsError:
        misused(f"--export {export}: exists already; expected the path of a new file")
    except OSError as exc:
        fail(f"{exc.filename or broker.name}: {exc.strerror}")
    resent = _resend(name, listing, even_if_stored=even_if_stored) if resends else []
    if as_json:
        print_json(_document(broker, listing, resent))
    else:
        _show(broker, listing, lines)
        _show_resent(resent, lines)
    is_whole = all(one.outcome in STORED or one.outcome == SKIPPED for one in resent)
    raise click.exceptions.Exit(0 if is_whole and not listing.damages else 1)


def _broker(target: str, nodes: list[Node]) -> Node:
    try:
        found = find_targets(target, nodes)
    except UnknownTargetError as exc:
        misused(str(exc))
    if len(found) > 1:
        misused(f"{target} means {', '.join(one.name for one in found)}: name one of them")
    if found[0].kind is not NodeKind.BROKER:
        misused(f"{found[0].name} is a {found[0].kind}: only brokers have logs")
    return found[0]


def _export(listing: Listing, path: Path) -> None:
    """Write a JSON line for each message; FileExistsError for an existing file.

    Each has the properties, and the body in base64.
    """
    with path.open("x", encoding="utf-8") as file:
        for one in listing.messages:
            try:
                sent = as_sent(one)
                body, properties = sent.body, dict(sent.properties)
            except RecordError:
                body, properties = one.message.body, one.message.properties
            content = {**one.as_json(), "properties": properties, "body": base64.b64encode(body).decode()}
            file.write(json.dumps(content) + "\n")


def _resend(name: str, listing: Listing, *, even_if_stored: bool) -> list[Resent]:
    address = ask_quietly(name, "status")["namesrv_addr"]
    with working(f"sending {len(listing.messages)} messages again"):
        return trio.run(_run, address, listing.messages, even_if_stored)


async def _run(
    address: str,
    messages: tuple[DivergedMessage, ...],
    even_if_stored: bool,  # noqa: FBT001 -- trio.run hands arguments over by position
) -> list[Resent]:
    return await resend(address, messages, even_if_stored=even_if_stored)


def _document(broker: Node, listing: Listing, resent: list[Resent]) -> dict[str, Any]:
    return {
        "node": broker.name,
        "messages": [one.as_json() for one in listing.messages],
        "damages": [{"file": one.file.name, "at": one.at, "reason": one.reason} for one in listing.damages],
        "resent": [one.as_json() for one in resent],
    }


def _show(broker: Node, listing: Listing, most: int) -> None:
    if not listing.messages:
        console.print(f"{broker.name} has cut no message from its log")
    else:
        console.print(_table(listing.messages[:most]))
        if len(listing.messages) > most:
            console.print(f"... and {len(listing.messages) - most} more; --lines or --json shows them")
    for damage in listing.damages:
        console.print(printable(f"damaged: {damage.file.name} at byte {damage.at}: {damage.reason}"))


def _table(messages: tuple[DivergedMessage, ...]) -> UncutTable:
    table = UncutTable()
    for column in ("MESSAGE", "QUEUE", "OFFSET", "KEYS", "STORED", "BYTES", "OUTCOME", "IN LOGS"):
        table.add_column(column)
    for one in messages:
        table.add_row(
            printable(one.message_id),
            printable(f"{one.topic}:{one.message.queue_id}"),
            str(one.message.queue_offset),
            printable(one.message.properties.get(PROPERTY_KEYS, "")),
            clock_text(one.message.store_timestamp),
            str(one.message.store_size),
            one.outcome or "unknown",
            ", ".join(one.in_logs) or "none",
        )
    return table


def _show_resent(resent: list[Resent], most: int) -> None:
    if not resent:
        return
    counts = Counter(one.outcome for one in resent)
    console.print("sent again: " + ", ".join(f"{outcome} {count}" for outcome, count in counts.items()))
    for one in resent[:most]:
        console.print(printable(f"  {one.message_id} {one.outcome}{one.reason and f': {one.reason}'}"))
    if len(resent) > most:
        console.print(f"  ... and {len(resent) - most} more; --lines or --json shows them")
