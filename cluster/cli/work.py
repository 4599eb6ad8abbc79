"""Commands that put load on a cluster: produce and consume."""

import collections
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

from rmqlab.cluster.cli.event_lines import render_event
from rmqlab.cluster.cli.terms import DEFAULT_NAME, AsJson, Name, console, directory_of, fail, misused, print_json
from rmqlab.cluster.supervisor.command import CommandFailedError, CommandUsageError, Item, ask_stream
from rmqlab.cluster.supervisor.directory import NoClusterError
from rmqlab.remoting.acl import keys_fault
from rmqlab.remoting.min_copies import MAX_MIN_COPIES
from rmqlab.remoting.names import group_fault, topic_fault
from rmqlab.verdict.outcomes import STORED

Topic = Annotated[str, typer.Option("--topic", "-t", help="The topic; made by the first send.")]
AccessKey = Annotated[
    str, typer.Option(envvar="RMQLAB_ACCESS_KEY", help="Sign with this account, where the cluster has access control.")
]
SecretKey = Annotated[
    str, typer.Option(envvar="RMQLAB_SECRET_KEY", help="Its secret; others on this machine may see an option's value.")
]

Every = Annotated[bool, typer.Option("--all", "-a", help="Print each message, not only what went wrong.")]

_BEGINNINGS = ("first", "last")
_QUIET = ("sent", "delivered", "committed")
"""Kinds that are too many to print: only their number is shown."""


def produce(
    name: Name = DEFAULT_NAME,
    topic: Topic = "rmqlab",
    group: Annotated[str, typer.Option(help="Producer group.")] = "rmqlab-producer",
    rate_per_second: Annotated[float, typer.Option("--rate-per-second", "-r", min=0, help="0: no limit.")] = 10.0,
    count: Annotated[int, typer.Option("--count", "-c", min=0, help="0: until Ctrl-C.")] = 0,
    size: Annotated[int, typer.Option(min=0, help="Bytes of each body.")] = 128,
    size_spread: Annotated[int, typer.Option(min=0, help="Bodies have up to this many bytes more.")] = 0,
    senders: Annotated[int, typer.Option(min=1, help="Sends that may be under way.")] = 16,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for a send with its retries.")] = 3.0,
    retries: Annotated[int, typer.Option(min=0, help="Attempts after the first.")] = 2,
    tags: Annotated[str, typer.Option(help="Tag of each message.")] = "",
    min_copies: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_MIN_COPIES, help="Logs that must have each message, for brokers with obey_min_copies."
        ),
    ] = 0,
    access_key: AccessKey = "",
    secret_key: SecretKey = "",
    *,
    every: Every = False,
    as_json: AsJson = False,
) -> None:
    """Send messages from a process of the cluster, and count their outcomes.

    It ends at Ctrl-C or SIGTERM, and prints the counts. Sends without SEND_OK are shown when they happen.

    SEND_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE: stored. refused: not stored.
    indeterminate: possibly stored.
    """
    config = {
        "topic": topic,
        "group": group,
        "rate_per_second": rate_per_second,
        "count": count,
        "size": size,
        "size_spread": size_spread,
        "senders": senders,
        "send_timeout": timeout,
        "retries": retries,
        "tags": tags,
        "min_copies": min_copies,
        "access_key": access_key,
        "secret_key": secret_key,
    }
    work(name, "rmqlab.cluster.workload.produce", config, every=every, as_json=as_json)


def consume(
    name: Name = DEFAULT_NAME,
    topic: Topic = "rmqlab",
    group: Annotated[str, typer.Option("--group", "-g", help="Consumer group.")] = "rmqlab-consumer",
    tags: Annotated[str, typer.Option(help="A tag, several as `A || B`, or `*`.")] = "*",
    from_where: Annotated[str, typer.Option("--from", help="Where a new group begins: first or last.")] = "first",
    count: Annotated[
        int, typer.Option("--count", "-c", min=0, help="End at so many, and what has come with them; 0: at Ctrl-C.")
    ] = 0,
    takes: Annotated[float, typer.Option("--work", min=0, help="Seconds that each message takes.")] = 0.0,
    access_key: AccessKey = "",
    secret_key: SecretKey = "",
    *,
    every: Every = False,
    as_json: AsJson = False,
) -> None:
    """Consume a topic in a process of the cluster, and count the deliveries.

    It ends at Ctrl-C or SIGTERM, and prints the counts.
    """
    if from_where not in _BEGINNINGS:
        misused(f"--from {from_where}: expected {' or '.join(_BEGINNINGS)}")
    config = {
        "topic": topic,
        "group": group,
        "tags": tags,
        "from_where": from_where,
        "count": count,
        "work": takes,
        "access_key": access_key,
        "secret_key": secret_key,
    }
    work(name, "rmqlab.cluster.workload.consume", config, every=every, as_json=as_json)


def work(name: str, module: str, config: dict[str, Any], *, every: bool, as_json: bool) -> None:
    """Run a workload and show its events until it ends, or until a signal ends it."""
    if (fault := topic_fault(config["topic"]) or group_fault(config["group"])) is not None:
        misused(fault)
    keys = config["access_key"], config["secret_key"]
    if any(keys) and (fault := keys_fault(*keys)) is not None:
        misused(fault)
    directory = directory_of(name)
    counts: collections.Counter[str] = collections.Counter()
    status = None
    try:
        with _sigterm_as_ctrl_c(), _counter(is_shown=not as_json) as show:
            for message in ask_stream(directory, "work", module=module, config=config):
                if not isinstance(message, Item):
                    status = message.value["status"]
                    break
                event = message.value
                counts.update(_counted(event))
                if as_json:
                    print_json(event)
                elif every or not _is_quiet(event):
                    console.print(render_event(event))
                show(_summary(counts))
    except KeyboardInterrupt:
        status = 0
    except CommandUsageError as exc:
        misused(str(exc))
    except (CommandFailedError, NoClusterError) as exc:
        fail(str(exc))
    if not as_json:
        console.print(_summary(counts))
    if status:
        fail(f"the workload ended with status {status}")
    if counts["sent"] and not any(counts[outcome] for outcome in STORED):
        fail(f"none of {counts['sent']} sends is known to be stored")


@contextlib.contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt in this block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _counter(*, is_shown: bool) -> Iterator[Callable[[str], object]]:
    """Yield a function that shows counts in the last line of a terminal."""
    if not is_shown or not console.is_terminal or console.is_dumb_terminal:
        yield lambda _counts: None
        return
    with Live(console=console, refresh_per_second=5, transient=True) as live:
        yield lambda counts: live.update(Text(counts))


def _counted(event: dict[str, Any]) -> list[str]:
    match event["kind"]:
        case "sent":
            return ["sent", event["outcome"]]
        case "delivered":
            return ["delivered", "redelivered"] if event["reconsume_times"] else ["delivered"]
        case _:
            return []


def _is_quiet(event: dict[str, Any]) -> bool:
    return event["kind"] in _QUIET and event.get("outcome", "SEND_OK") == "SEND_OK"


def _summary(counts: collections.Counter[str]) -> str:
    return "  ".join(f"{what} {number}" for what, number in counts.items()) or "nothing yet"
