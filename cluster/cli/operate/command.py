"""Makes a command of an operation.

It adds the options of the connection, runs the operation, and prints its result.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, TypeVar

import trio
import typer
from rich.console import RenderableType

from rmqlab.cluster.cli.progress import working
from rmqlab.cluster.cli.terms import DEFAULT_NAME, AsJson, Name, ask_quietly, fail, live_console, misused, print_json
from rmqlab.cluster.cli.work import AccessKey, SecretKey
from rmqlab.cluster.operate.errors import InvalidOperationError, OperationError
from rmqlab.cluster.operate.results import as_json
from rmqlab.cluster.operate.session import Connection, open_operator
from rmqlab.cluster.supervisor.topology import NodeKind

R = TypeVar("R")
Lines = Iterable[RenderableType]

Namesrv = Annotated[
    str,
    typer.Option(
        "--namesrv",
        help="Name servers of any RocketMQ cluster, HOST:PORT[;...], in place of a cluster of the lab.",
        metavar="ADDR",
        show_default=False,
    ),
]
Cluster = Annotated[str, typer.Option("--cluster", help="Only brokers of this RocketMQ cluster.", show_default=False)]
Brokers = Annotated[
    list[str] | None, typer.Option("--broker", help="Only this broker name; may be repeated.", show_default=False)
]

LONGEST_SECONDS = 600.0
"""For a whole operation: a server can list any number of brokers and groups, and let each request time out."""

_SHARED: dict[str, tuple[Any, Any]] = {
    "name": (Name, DEFAULT_NAME),
    "namesrv": (Namesrv, ""),
    "access_key": (AccessKey, ""),
    "secret_key": (SecretKey, ""),
    "as_json": (AsJson, False),
}


def operator_app(help_text: str) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)


def operation(
    show: Callable[[R], Lines], document: Callable[[R], Any] = as_json
) -> Callable[[Callable[..., Awaitable[R]]], Callable[..., None]]:
    """Decorate `async def work(operator, ...)`: return the function of its command.

    `show` renders the result for a person, `document` for `--json`. The command's other parameters are those of
    `work`. Exit status 2 for an invalid argument, 1 if the operation was not done.
    """

    def decorate(work: Callable[..., Awaitable[R]]) -> Callable[..., None]:
        def run(**values: Any) -> None:
            shared = {key: values.pop(key) for key in _SHARED}
            result = _run(shared, work, values)
            if shared["as_json"]:
                print_json(document(result))
                return
            for line in show(result):
                live_console.print(line)

        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in [*inspect.signature(work).parameters.values()][1:]
        ]
        shared = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for key, (annotation, default) in _SHARED.items()
        ]
        parameters = [*own, *shared]
        run.__doc__ = work.__doc__
        run.__name__ = work.__name__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        return run

    return decorate


def _run(shared: dict[str, Any], work: Callable[..., Awaitable[R]], values: dict[str, Any]) -> R:
    async def run() -> R:
        try:
            with trio.fail_after(LONGEST_SECONDS):
                async with open_operator(connection) as operator:
                    return await work(operator, **values)
        except trio.TooSlowError:
            raise OperationError(f"no result within {LONGEST_SECONDS:g} s") from None

    try:
        connection = _connection(shared)
        with working(f"asking {connection.namesrv_addr}"):
            return trio.run(run)
    except InvalidOperationError as exc:
        misused(str(exc))
    except OperationError as exc:
        fail(str(exc))


def _connection(shared: dict[str, Any]) -> Connection:
    keys = {"access_key": shared["access_key"], "secret_key": shared["secret_key"]}
    if shared["namesrv"]:
        return Connection(namesrv_addr=shared["namesrv"], **keys)
    status = ask_quietly(shared["name"], "status")
    asked_at = time.monotonic()

    def now_millis() -> int:
        return int(status["clock_millis"] + (time.monotonic() - asked_at) * status["rate"] * 1000)

    return Connection(
        namesrv_addr=status["namesrv_addr"],
        nodes={node["name"]: node["address"] for node in status["nodes"] if node["kind"] == NodeKind.BROKER},
        now_millis=now_millis,
        **keys,
    )
