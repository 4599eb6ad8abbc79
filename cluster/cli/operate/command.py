"""Makes a command of an operation.

It adds the options of the connection, runs the operation, and prints its result.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import click
import trio
from rich.console import RenderableType

from rmqlab.cluster.cli.output.progress import working
from rmqlab.cluster.cli.output.screen import live_console
from rmqlab.cluster.cli.terms import ask_quietly, fail, json_option, misused, name_option, print_json
from rmqlab.cluster.cli.work import access_key_option, secret_key_option
from rmqlab.cluster.operate.errors import InvalidOperationError, OperationError
from rmqlab.cluster.operate.results import as_json
from rmqlab.cluster.operate.session import Connection, open_operator
from rmqlab.cluster.supervisor.plan.topology import NodeKind

R = TypeVar("R")
Lines = Iterable[RenderableType]

LONGEST_SECONDS = 600.0
"""For a whole operation: a server can list any number of brokers and groups, and let each request time out."""

namesrv_option = click.option(
    "--namesrv",
    metavar="ADDR",
    help="Nameservers of any RocketMQ cluster, HOST:PORT[;...], instead of a cluster of rmqlab.",
)
cluster_option = click.option(
    "--cluster", default="", show_default=False, help="Only brokers of this RocketMQ cluster."
)
brokers_option = click.option("brokers", "--broker", multiple=True, help="Only this broker name; may be repeated.")


def operation(
    show: Callable[[R], Lines], document: Callable[[R], Any] = as_json
) -> Callable[[Callable[..., Awaitable[R]]], Callable[..., None]]:
    """Decorate `async def work(operator, ...)`: return the function of its command.

    `show` renders the result for a person, `document` for `--json`. The function has the options of the connection;
    those of `work` are declared on top of it. Exit status 2 for an invalid argument, 1 if the operation was not done.
    """

    def decorate(work: Callable[..., Awaitable[R]]) -> Callable[..., None]:
        @name_option
        @namesrv_option
        @access_key_option
        @secret_key_option
        @json_option
        def run(
            *, name: str, namesrv: str | None, access_key: str, secret_key: str, as_json: bool, **values: Any
        ) -> None:
            result = _run(lambda: _connection(name, namesrv, access_key, secret_key), work, values)
            if as_json:
                print_json(document(result))
                return
            for line in show(result):
                live_console.print(line)

        run.__doc__ = work.__doc__
        return run

    return decorate


def _run(connect: Callable[[], Connection], work: Callable[..., Awaitable[R]], values: dict[str, Any]) -> R:
    async def run() -> R:
        try:
            with trio.fail_after(LONGEST_SECONDS):
                async with open_operator(connection) as operator:
                    return await work(operator, **values)
        except trio.TooSlowError:
            raise OperationError(f"no result within {LONGEST_SECONDS:g} s") from None

    try:
        connection = connect()
        with working(f"asking {connection.namesrv_addr}"):
            return trio.run(run)
    except InvalidOperationError as exc:
        misused(str(exc))
    except OperationError as exc:
        fail(str(exc))


def _connection(name: str, namesrv: str | None, access_key: str, secret_key: str) -> Connection:
    if namesrv is not None:  # an empty one is an error: the operation would change another cluster
        return Connection(namesrv_addr=namesrv, access_key=access_key, secret_key=secret_key)
    status = ask_quietly(name, "status")
    asked_at = time.monotonic()

    def now_millis() -> int:
        return int(status["clock_millis"] + (time.monotonic() - asked_at) * status["rate"] * 1000)

    return Connection(
        namesrv_addr=status["namesrv_addr"],
        nodes={node["name"]: node["address"] for node in status["nodes"] if node["kind"] == NodeKind.BROKER},
        now_millis=now_millis,
        access_key=access_key,
        secret_key=secret_key,
    )
