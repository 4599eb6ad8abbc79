"""A server for the tests of channels: echoes, parks, fails, or returns much data."""

from collections import Counter
from typing import TYPE_CHECKING

from rmqlab.remoting.codes import RequestCode
from rmqlab.runtime.net.dispatch import Dispatcher, Reply, Request, Route, handler_table
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.server import Server

if TYPE_CHECKING:
    from rmqlab.remoting.command import Command

ECHO, PARK, BLOB = RequestCode.GET_BROKER_CONFIG, RequestCode.PULL_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID
FAIL = RequestCode.QUERY_MESSAGE


class Peer:
    """A server that echoes, parks, or returns much data."""

    def __init__(self, reactor: Reactor) -> None:
        self.parked: list[Request] = []
        self.in_pass: Counter[float] = Counter()
        self._reactor = reactor
        self.received: list[Command] = []
        table = handler_table(
            [
                Route(ECHO, None, self._echo),
                Route(PARK, None, self._park),
                Route(FAIL, None, self._fail),
                Route(BLOB, None, lambda _state, _header, _request: Reply(body=[b"x" * 2**20] * 8)),
            ]
        )
        self.server: Server[None] = Server(reactor, Dispatcher(table, None))
        host, port = self.server.listen("127.0.0.1", 0)
        self.address = f"{host}:{port}"

    def _echo(self, _state: None, _header: None, request: Request) -> Reply:
        self.received.append(request.command)
        self.in_pass[self._reactor.pass_began] += 1
        return Reply(header=request.command.ext_fields, body=request.command.body)

    def _fail(self, _state: None, _header: None, _request: Request) -> Reply:
        raise RuntimeError("on purpose")

    def _park(self, _state: None, _header: None, request: Request) -> None:
        self.parked.append(request)
