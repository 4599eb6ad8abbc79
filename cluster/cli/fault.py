"""Commands that break links, disks, requests and clocks, and heal them again."""

from typing import Annotated, Any

import typer

from rmqlab.cluster.cli.tables import render_faults
from rmqlab.cluster.cli.terms import (
    DEFAULT_NAME,
    AsJson,
    Name,
    Target,
    command,
    console,
    directory_of,
    fail,
    misused,
    print_json,
)
from rmqlab.cluster.faults.rules import describe_fault
from rmqlab.cluster.supervisor.command import CommandFailedError, CommandUsageError, Item, ask_stream
from rmqlab.cluster.supervisor.directory import NoClusterError
from rmqlab.runtime.fault_rules import CLOCK_KINDS, DISK_KINDS, LINK_KINDS, REQUEST_KINDS
from rmqlab.runtime.printable import printable

fault_app = typer.Typer(
    help="Put a fault in force. It has an id, is shown by `faults`, and ends with `heal ID`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

End = "A node, all of a role (broker-a:slave), outside, or * for all others."


@fault_app.command("link")
def link(
    src: Annotated[str, typer.Argument(help=f"Who sends. {End}")],
    dst: Annotated[str, typer.Argument(help="Who receives.")],
    kind: Annotated[str, typer.Option("--kind", "-k", help=" | ".join(LINK_KINDS), metavar="KIND")],
    only: Annotated[str | None, typer.Option(help="remoting, vip or ha. [all]")] = None,
    millis: Annotated[float | None, typer.Option(help="latency: so much later.")] = None,
    jitter: Annotated[float | None, typer.Option(help="latency: up to so many ms more.")] = None,
    bytes_per_second: Annotated[float | None, typer.Option(help="bandwidth, of each connection.")] = None,
    after_bytes: Annotated[int | None, typer.Option(help="cut: after so many. [6]")] = None,
    segment_bytes: Annotated[int | None, typer.Option(help="slice: most that arrive at once. [1]")] = None,
    gap: Annotated[float | None, typer.Option(help="slice: ms between them. [0]")] = None,
    name: Name = DEFAULT_NAME,
    *,
    both_ways: Annotated[bool, typer.Option("--both-ways", help="From DST to SRC as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """Break what goes from SRC to DST; what goes back stays whole. Times are ms of the cluster's clock.

    blackhole: packets vanish, connects hang. refuse: no new connections. reset: connections are reset. latency,
    bandwidth: slower. cut: connections end in the middle of a frame. slice: data arrive in tiny pieces.
    """
    values = {
        "type": "link",
        "src": src,
        "dst": dst,
        "kind": kind,
        "only": only,
        "both_ways": both_ways,
        "millis": millis,
        "jitter_millis": jitter,
        "bytes_per_second": bytes_per_second,
        "after_bytes": after_bytes,
        "segment_bytes": segment_bytes,
        "gap_millis": gap,
    }
    _apply(name, values, as_json=as_json)


@fault_app.command("disk")
def disk(
    target: Target,
    kind: Annotated[str, typer.Option("--kind", "-k", help=" | ".join(DISK_KINDS), metavar="KIND")],
    bytes_left: Annotated[int | None, typer.Option(help="full: what may still be allocated. [0]")] = None,
    millis: Annotated[float | None, typer.Option(help="slow-sync: how much longer each takes.")] = None,
    percent: Annotated[int | None, typer.Option(help="used: how full it says that it is.")] = None,
    name: Name = DEFAULT_NAME,
    *,
    as_json: AsJson = False,
) -> None:
    """Let a broker's disk be full, slow to sync, unable to sync, read-only, or nearly full."""
    values = {
        "type": "disk",
        "target": target,
        "kind": kind,
        "bytes_left": bytes_left,
        "millis": millis,
        "percent": percent,
    }
    _apply(name, values, as_json=as_json)


@fault_app.command("request")
def request(
    target: Target,
    code: Annotated[str, typer.Argument(help="A request code: 310, or SEND_MESSAGE_V2.")],
    kind: Annotated[str, typer.Option("--kind", "-k", help=" | ".join(REQUEST_KINDS), metavar="KIND")] = "answer",
    times: Annotated[int | None, typer.Option(help="How many of them. [all]")] = None,
    response_code: Annotated[str | None, typer.Option(help="answer: with this code. [SYSTEM_BUSY]")] = None,
    remark: Annotated[str | None, typer.Option(help="answer: with this text.")] = None,
    millis: Annotated[float | None, typer.Option(help="delay: so much later.")] = None,
    name: Name = DEFAULT_NAME,
    *,
    as_json: AsJson = False,
) -> None:
    """Answer requests of one code unhandled, handle them late, or drop them."""
    values = {
        "type": "request",
        "target": target,
        "code": code,
        "kind": kind,
        "times": times,
        "response_code": response_code,
        "remark": remark,
        "millis": millis,
    }
    _apply(name, values, as_json=as_json)


@fault_app.command("clock")
def clock(
    target: Target,
    kind: Annotated[str, typer.Option("--kind", "-k", help=" | ".join(CLOCK_KINDS), metavar="KIND")],
    millis: Annotated[float | None, typer.Option(help="step: so far ahead; negative: back.")] = None,
    ppm: Annotated[float | None, typer.Option(help="skew: microseconds gained each second.")] = None,
    name: Name = DEFAULT_NAME,
    *,
    as_json: AsJson = False,
) -> None:
    """Put a node's wall clock wrong: store timestamps, ages of messages. Its time-outs stay right."""
    _apply(name, {"type": "clock", "target": target, "kind": kind, "millis": millis, "ppm": ppm}, as_json=as_json)


@fault_app.command("ha-report")
def ha_report(
    target: Target,
    offset: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The log up to here is said to be there.")] = 2**62,
    name: Name = DEFAULT_NAME,
    *,
    repeat: Annotated[bool, typer.Option("--repeat", help="Again every 5 s, as a slave does.")] = False,
    as_json: AsJson = False,
) -> None:
    """Connect to a broker's HA port as a stranger, and report an offset that nobody has."""
    values = {"type": "ha-report", "target": target, "offset": offset, "is_repeated": repeat}
    _apply(name, values, as_json=as_json)


@fault_app.command("random")
def random_faults(
    every: Annotated[float, typer.Option(help="Seconds of the cluster's clock between them.")] = 30.0,
    of: Annotated[str, typer.Option(help="Some of kill, stop, pause, power-loss, isolate.")] = "kill,pause,isolate",
    on: Annotated[str, typer.Option(help="masters, slaves, brokers, nameservers, or a target.")] = "masters",
    heal_after: Annotated[float, typer.Option(help="Seconds until it is undone.")] = 20.0,
    seed: Annotated[int, typer.Option(help="The same seed does the same to the same cluster.")] = 0,
    count: Annotated[int, typer.Option(min=0, help="How many. 0: until Ctrl-C.")] = 0,
    name: Name = DEFAULT_NAME,
    *,
    as_json: AsJson = False,
) -> None:
    """Strike a random node again and again, until Ctrl-C, which undoes what is in force."""
    values = {
        "every": every,
        "of": [action for action in of.split(",") if action.strip()],
        "on": on,
        "heal_after": heal_after,
        "seed": seed,
        "count": count,
    }
    try:
        for message in ask_stream(directory_of(name), "random-faults", **values):
            if isinstance(message, Item):
                print_json(message.value) if as_json else console.print(_strike_line(message.value))
    except KeyboardInterrupt:
        console.print("what is in force is undone")
    except CommandUsageError as exc:
        misused(str(exc))
    except (CommandFailedError, NoClusterError) as exc:
        fail(str(exc))


def faults(name: Name = DEFAULT_NAME, *, as_json: AsJson = False) -> None:
    """List the faults in force."""
    active = command(name, "faults")
    if as_json:
        print_json(active)
    else:
        console.print(render_faults(active))


def heal(
    ids: Annotated[list[str], typer.Argument(help="Ids as `faults` lists them, or all.", metavar="ID...|all")],
    name: Name = DEFAULT_NAME,
    *,
    as_json: AsJson = False,
) -> None:
    """End faults."""
    healed = command(name, "heal", ids=ids)
    if as_json:
        print_json(healed)
        return
    for fault in healed:
        console.print(printable(f"{fault['id']} is healed: {describe_fault(fault)}"))
    if not healed:
        console.print("no fault is in force")


def _apply(name: str, values: dict[str, Any], *, as_json: bool) -> None:
    active = command(name, "fault", values={key: value for key, value in values.items() if value is not None})
    if as_json:
        print_json(active)
    else:
        console.print(printable(f"{active['id']}: {describe_fault(active)}"))


def _strike_line(strike: dict[str, Any]) -> str:
    error = f": {strike['error']}" if strike["error"] else ""
    return printable(f"{strike['at']:8.2f} s  {strike['action']} {strike['target']}{error}")
