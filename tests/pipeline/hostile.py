"""A nameserver and broker in one whose replies a test decides.

They may be wrong, incomplete or missing.
"""

import contextlib
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping

import attrs

from rmqlab.remoting.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import RESPONSE, Command
from rmqlab.remoting.frame import FrameDecoder

SILENT = b""
"""No reply; the connection stays open."""
Reply = Command | bytes
"""A command, which gets the opaque of its request, or the bytes to send instead."""
Answer = Reply | Callable[[Command], Reply]
Replies = Mapping[RequestCode, Answer]
TOPIC = "orders"


def reply(code: int = 0, body: bytes = b"", /, **fields: object) -> Command:
    """Return a response with these ext fields."""
    return Command(code, body=body, raw_fields={name: str(value) for name, value in fields.items()})


@attrs.define
class HostileServer:
    """The address, the replies by request code, and the codes of the requests so far."""

    address: str
    replies: dict[int, Answer]
    asked: list[int] = attrs.field(factory=list)

    def respond(self, command: Command) -> bytes:
        self.asked.append(command.code)
        found = self.replies.get(command.code, SILENT)
        made = found(command) if callable(found) else found
        if isinstance(made, bytes):
            return made
        made.opaque, made.flag = command.opaque, RESPONSE
        return encode_command(made)


@contextlib.contextmanager
def hostile_server(host: str, replies: Replies) -> Iterator[HostileServer]:
    """Serve until the block ends.

    A route leads to the server itself, unless `replies` has another. Requests without a reply are ignored.
    """

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            decoder = FrameDecoder()
            with contextlib.suppress(OSError):
                while data := self.request.recv(2**16):
                    for frame in decoder.feed(data):
                        self.request.sendall(hostile.respond(decode_command(frame)))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False  # clients keep their connections

    with Server((host, 0), Handler) as server:
        address = f"{host}:{server.server_address[1]}"
        own: Replies = {RequestCode.GET_ROUTEINFO_BY_TOPIC: reply(0, route(address)), RequestCode.HEART_BEAT: reply()}
        hostile = HostileServer(address, {int(code): answer for code, answer in {**own, **replies}.items()})
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield hostile
        finally:
            server.shutdown()
            thread.join()


def route(*addresses: str, queues: int = 1) -> bytes:
    """Return the body of a route to brokers without slaves, `broker-0` and so on."""
    names = [f"broker-{number}" for number in range(len(addresses))]
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_addrs={0: address}, broker_name=name, cluster="c")
            for name, address in zip(names, addresses, strict=True)
        ],
        queue_datas=[
            QueueData(broker_name=name, perm=6, read_queue_nums=queues, write_queue_nums=queues) for name in names
        ],
    ).encode()
