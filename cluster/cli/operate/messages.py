"""messages: by offset message id, unique key, key, or queue and offset."""

import enum
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from rmqlab.client.messagequery import FOREVER, MAX_FOUND
from rmqlab.cluster.cli.group import CommandGroup
from rmqlab.cluster.cli.operate.command import Lines, operation
from rmqlab.cluster.cli.operate.rows import time_text
from rmqlab.cluster.operate import messages
from rmqlab.cluster.operate.results import as_json
from rmqlab.cluster.operate.session import Operator
from rmqlab.cluster.operate.values import parse_bound, parse_number, parse_queue
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.printable import printable, printable_lines

messages_app = CommandGroup("messages", help="Show messages by id, unique key, key, or queue and offset.")

_MOST_BODY = 2000
"""Characters of a body that are shown without --full."""
_HEX_BYTES = 16


class Body(enum.StrEnum):
    """The form in which bodies are shown."""

    auto = enum.auto()
    text = enum.auto()
    json = enum.auto()
    hex = enum.auto()


body_form_option = click.option(
    "--body", type=click.Choice(Body), default=Body.auto, help="How bodies are shown. auto: JSON, else text, else hex."
)
full_option = click.option("--full", is_flag=True, help="Show whole bodies.")
at_option = click.option("--at", default="", show_default=False, help="Read this copy: broker-a:slave, broker-a-s.")
topic_name_argument = click.argument("topic", help="The topic.")

Shown = tuple[list[messages.StoredAt], Body, bool]
"""Messages, the form of bodies, and whether these are shown whole."""


def _document(result: Shown) -> Any:
    return as_json(result[0])


def _show(result: Shown) -> Lines:
    found, form, is_full = result
    for number, one in enumerate(found):
        if number:
            yield ""
        yield from _lines(one)
        yield from _body(one.body, form, is_full=is_full)
    if not found:
        yield "no message"


def _lines(one: messages.StoredAt) -> Lines:
    yield Text("message     ", "bold").append(printable(one.message_id), "default")
    if one.offset_message_id != one.message_id:
        yield f"offset id   {one.offset_message_id}"
    yield Text(printable(f"queue       {one.topic}@{one.broker}:{one.queue} at {one.queue_offset}"))
    yield f"log offset  {one.log_offset}, {one.size} bytes"
    yield f"born        {time_text(one.born_at)} at {one.born_host}"
    yield f"stored      {time_text(one.stored_at)} at {one.stored_host}"
    if one.reconsume_times:
        yield f"redelivered {counted(one.reconsume_times, 'times')}"
    for key, value in one.properties.items():
        yield Text(printable(f"property    {key}={value}"))


def _body(body: bytes, form: Body, *, is_full: bool) -> list[RenderableType]:
    text = messages.body_text(body)
    if form is Body.auto:
        is_json = body[:1] in (b"{", b"[") and messages.body_json(body) is not None
        form = Body.json if is_json else Body.hex if text is None else Body.text
    if form is Body.json and (found := messages.body_json(body)) is not None:
        shown, name = found, "json"
    elif form in (Body.text, Body.json):
        shown, name = body.decode("utf-8", "backslashreplace"), "text" if form is Body.text else "text, not JSON"
    else:
        shown, name = _hex(body), "hex"
    cut = [] if is_full or len(shown) <= _MOST_BODY else [f"... {len(shown) - _MOST_BODY} more characters: --full"]
    indented = "\n".join(f"  {line}" for line in printable_lines(shown if not cut else shown[:_MOST_BODY]).split("\n"))
    return [f"body        {len(body)} bytes, {name}", Text(indented), *cut]


def _hex(body: bytes) -> str:
    rows = [body[at : at + _HEX_BYTES] for at in range(0, len(body), _HEX_BYTES)]
    return "\n".join(
        f"{number * _HEX_BYTES:06x}  {row.hex(' '):{_HEX_BYTES * 3}} "
        + "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        for number, row in enumerate(rows)
    )


@messages_app.command("id")
@click.argument("message_id", metavar="ID", help="An offset message id (offsetMsgId).")
@at_option
@body_form_option
@full_option
@operation(_show, _document)
async def by_id(operator: Operator, message_id: str, at: str, body: Body, *, full: bool) -> Shown:
    """Show the message of an offset message id."""
    return [await messages.message_by_id(operator, message_id, at)], body, full


@messages_app.command("unique-key")
@topic_name_argument
@click.argument("key", help="The id that the producer gave the message (UNIQ_KEY, msgId).")
@body_form_option
@full_option
@operation(_show, _document)
async def by_unique_key(operator: Operator, topic: str, key: str, body: Body, *, full: bool) -> Shown:
    """Show the message that its producer gave this id."""
    return [await messages.message_by_unique_key(operator, topic, key)], body, full


@messages_app.command("key")
@topic_name_argument
@click.argument("key", help="One of the message's keys (KEYS).")
@click.option("--count", "-c", default="64", help="Most messages from each broker.")
@click.option("--begin", metavar="TIME", default="first", help="Stored from this time on.")
@click.option("--end", metavar="TIME", help="Stored until this time.")
@body_form_option
@full_option
@operation(_show, _document)
async def by_key(
    operator: Operator, topic: str, key: str, count: str, begin: str, end: str | None, body: Body, *, full: bool
) -> Shown:
    """Show the messages that have a key."""
    now = operator.connection.now_millis()
    number = parse_number(count, "count", 1, MAX_FOUND)
    first, last = parse_bound(begin, now), parse_bound(end or FOREVER, now)
    return await messages.messages_by_key(operator, topic, key, count=number, begin=first, end=last), body, full


@messages_app.command("at")
@click.argument("queue", help="TOPIC@BROKER:QUEUE, such as orders@broker-a:0.")
@click.argument("offset", help="Offset in the queue.")
@click.option("--count", "-c", default="1", help="Number of messages from there on.")
@at_option
@body_form_option
@full_option
@operation(_show, _document)
async def by_offset(
    operator: Operator, queue: str, offset: str, count: str, at: str, body: Body, *, full: bool
) -> Shown:
    """Show the message at an offset of a queue, and those after it."""
    number = parse_number(count, "count", 1, messages.MAX_COUNT)
    where = parse_number(offset, "offset")
    return await messages.messages_at(operator, parse_queue(queue), where, count=number, at=at), body, full
