"""Commands that put load on a cluster: produce and consume."""

import collections
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
from rich.live import Live
from rich.text import Text

from rmqlab.cluster.cli.interruption import stopping_at_signals
from rmqlab.cluster.cli.number import NumberRange
from rmqlab.cluster.cli.output.event_lines import event_line
from rmqlab.cluster.cli.output.repeats import RepeatFolder
from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.terms import directory_of, fail, json_option, misused, name_option, print_json
from rmqlab.cluster.supervisor.command import CommandFailedError, CommandUsageError, Item, ask, ask_stream
from rmqlab.cluster.supervisor.files.directory import NoClusterError
from rmqlab.cluster.workload.limits import MOST_SENDERS, MOST_SENDS_PER_SECOND, MOST_SIZE
from rmqlab.remoting.acl import keys_fault
from rmqlab.remoting.min_copies import MAX_MIN_COPIES
from rmqlab.remoting.names import group_fault, topic_fault
from rmqlab.runtime.config.validators import MOST_SECONDS
from rmqlab.runtime.text.counted import counted
from rmqlab.verdict.outcomes import STORED

topic_option = click.option("--topic", "-t", default="rmqlab", help="The topic; the first send creates it.")
access_key_option = click.option(
    "--access-key",
    default="",
    show_default=False,
    envvar="RMQLAB_ACCESS_KEY",
    show_envvar=True,
    help="Sign with this account, where the cluster has access control.",
)
secret_key_option = click.option(
    "--secret-key",
    default="",
    show_default=False,
    envvar="RMQLAB_SECRET_KEY",
    show_envvar=True,
    help="Its secret; other users of this machine can see options, so prefer the variable.",
)

every_option = click.option("every", "--all", "-a", is_flag=True, help="Print each message, not only what went wrong.")

_BEGINNINGS = ("first", "last")
_QUIET = ("sent", "delivered", "committed")
"""Kinds that are too many to print: only their number is shown."""
_TOTALS = ("produced", "consumed")
"""The last events of a workload."""
_HOUSEKEEPING = ("node_spawned", "node_ready", "node_stopped", "journal_opened", "journal_closed", "command")
"""Kinds about the process itself, which `--all` prints."""


class WorkloadCommand(click.Command):
    """A command whose topic is an option; an argument is probably meant as the topic."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click, with a hint at `--topic`."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as exc:
            if type(exc) is not click.UsageError or "unexpected extra argument" not in exc.message:
                raise
            raise click.UsageError(f"{exc.message}. The topic is an option: --topic TOPIC", ctx) from None


@click.command(cls=WorkloadCommand)
@name_option
@topic_option
@click.option("--group", default="rmqlab-producer", help="Producer group.")
@click.option(
    "--rate-per-second",
    "-r",
    type=NumberRange(min=0, max=MOST_SENDS_PER_SECOND),
    default=10.0,
    help="Messages per second; 0: no limit.",
)
@click.option("--count", "-c", type=click.IntRange(min=0), default=0, help="Number of messages; 0: until Ctrl-C.")
@click.option("--size", type=click.IntRange(min=0, max=MOST_SIZE), default=128, help="Bytes of each body.")
@click.option(
    "--size-spread",
    type=click.IntRange(min=0, max=MOST_SIZE),
    default=0,
    help="Let sizes differ: bodies have up to this many bytes more.",
)
@click.option("--senders", type=click.IntRange(min=1, max=MOST_SENDERS), default=16, help="Most sends at a time.")
@click.option(
    "--timeout", type=NumberRange(min=0.001, max=MOST_SECONDS), default=3.0, help="Seconds for a send with its retries."
)
@click.option("--retries", type=click.IntRange(min=0), default=2, help="Attempts after the first.")
@click.option(
    "--send-latency-fault-enable",
    is_flag=True,
    help="Avoid brokers with slow attempts for up to 3 min, with failed ones for 10 min.",
)
@click.option("--tags", default="", show_default=False, help="Tag of each message.")
@click.option(
    "--min-copies",
    type=click.IntRange(min=0, max=MAX_MIN_COPIES),
    default=0,
    help="Logs that must have each message, for brokers with obey_min_copies.",
)
@access_key_option
@secret_key_option
@every_option
@json_option
def produce(
    name: str,
    topic: str,
    group: str,
    rate_per_second: float,
    count: int,
    size: int,
    size_spread: int,
    senders: int,
    timeout: float,
    retries: int,
    tags: str,
    min_copies: int,
    access_key: str,
    secret_key: str,
    *,
    send_latency_fault_enable: bool,
    every: bool,
    as_json: bool,
) -> None:
    """Send messages from a process of the cluster, and count their outcomes.

    It ends at Ctrl-C or SIGTERM, and prints the counts. Sends without SEND_OK are shown, repeats every 5 s.

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
        "send_latency_fault_enable": send_latency_fault_enable,
        "tags": tags,
        "min_copies": min_copies,
        "access_key": access_key,
        "secret_key": secret_key,
    }
    work(name, "rmqlab.cluster.workload.produce", config, first="sent", every=every, as_json=as_json)


@click.command(cls=WorkloadCommand)
@name_option
@topic_option
@click.option("--group", "-g", default="rmqlab-consumer", help="Consumer group.")
@click.option("--tags", default="*", help="A tag, several as `A || B`, or `*`.")
@click.option("from_where", "--from", default="first", help="Where a new group begins: first or last.")
@click.option(
    "--count",
    "-c",
    type=click.IntRange(min=0),
    default=0,
    help="End after this many messages, and the rest of their pull; 0: until Ctrl-C.",
)
@click.option(
    "takes",
    "--work",
    type=NumberRange(min=0, max=MOST_SECONDS),
    default=0.0,
    help="Seconds that the listener spends on each message.",
)
@access_key_option
@secret_key_option
@every_option
@json_option
def consume(
    name: str,
    topic: str,
    group: str,
    tags: str,
    from_where: str,
    count: int,
    takes: float,
    access_key: str,
    secret_key: str,
    *,
    every: bool,
    as_json: bool,
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
    work(name, "rmqlab.cluster.workload.consume", config, first="delivered", every=every, as_json=as_json)


def work(name: str, module: str, config: dict[str, Any], *, first: str, every: bool, as_json: bool) -> None:
    """Run a workload and show its events until it ends, or until a signal ends it.

    `first` is the counter shown as 0 before the first event: `sent` or `delivered`.
    """
    if (fault := topic_fault(config["topic"]) or group_fault(config["group"])) is not None:
        misused(fault)
    keys = config["access_key"], config["secret_key"]
    if any(keys) and (fault := keys_fault(*keys)) is not None:
        misused(fault)
    directory = directory_of(name)
    counts: collections.Counter[str] = collections.Counter()
    status = None
    names: set[str] = set()

    def stop() -> None:
        """Stop the workload, and let its last outcomes arrive."""
        try:
            for workload in names:
                ask(directory, "stop", target=workload)
        except (CommandFailedError, CommandUsageError, NoClusterError):  # such as a paused workload
            names.clear()
        if not names:
            raise KeyboardInterrupt

    try:
        with (
            contextlib.closing(RepeatFolder(_show)) as folder,
            stopping_at_signals(stop),
            _counter(is_shown=not as_json) as show,
        ):
            for message in ask_stream(directory, "work", module=module, config=config):
                if not isinstance(message, Item):
                    status = message.value["status"]
                    break
                names.add(message.value["node"])
                counts.update(_counted(message.value))
                _print_event(message.value, folder, every=every, as_json=as_json)
                show(_summary(counts, first))
    except KeyboardInterrupt:
        status = 0
    except CommandUsageError as exc:
        misused(str(exc))
    except (CommandFailedError, NoClusterError) as exc:
        fail(str(exc))
    if not as_json:
        console.print(_summary(counts, first))
    if status:
        fail(f"the workload ended with status {status}")
    if counts["sent"] and not any(counts[outcome] for outcome in STORED):
        fail(f"none of {counted(counts['sent'], 'sends')} is known to be stored")


def _print_event(event: dict[str, Any], folder: RepeatFolder, *, every: bool, as_json: bool) -> None:
    if as_json:
        print_json(event)
    elif every:
        _show(event, 1)
    elif not _is_quiet(event):
        if event["kind"] in _TOTALS:
            folder.close()  # the counts of failures come before the totals
        folder.add(event)
    folder.show_due()


def _show(event: Mapping[str, Any], times: int) -> None:
    """Print an event that occurred so many times."""
    console.print(event_line(event, "" if times == 1 else f"  ({times} times)"))


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
    kind = event["kind"]
    return kind in _HOUSEKEEPING or (kind in _QUIET and event.get("outcome", "SEND_OK") == "SEND_OK")


def _summary(counts: collections.Counter[str], first: str) -> str:
    return "  ".join(f"{what} {number}" for what, number in counts.items()) or f"{first} 0"
