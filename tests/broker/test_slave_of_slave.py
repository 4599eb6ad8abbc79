"""A slave that serves slaves and cuts its log: they have bytes that it loses."""

import struct

import trio

from rmqlab.remoting.message import MESSAGE_MAGIC
from tests.broker.brokerprocess import HOSTS, World

RECORD_SIZE = 200
BEGUN = struct.pack(">ii", RECORD_SIZE, MESSAGE_MAGIC).ljust(100, b"\0")
FRAME = struct.Struct(">qi")


async def test_its_slaves_are_disconnected_when_received_bytes_are_cut(world: World) -> None:
    """They got a part of the record before the rest showed that it is invalid."""
    (listener,) = await trio.open_tcp_listeners(0, host=HOSTS[0])
    async with listener:
        port = listener.socket.getsockname()[1]
        middle = await world.start(
            "middle",
            HOSTS[1],
            broker_role="SLAVE",
            broker_id=1,
            ha_master_address=f"{HOSTS[0]}:{port}",
            ha_verify_received=True,
            ha_report_at_once=True,
            ha_housekeeping_interval=600_000,
        )
        async with (
            await listener.accept() as false_master,
            await trio.open_tcp_stream(HOSTS[1], 10912) as last,
        ):
            await last.send_all(struct.pack(">q", 0))
            await false_master.send_all(FRAME.pack(0, len(BEGUN)) + BEGUN)
            assert await received(last) == BEGUN
            await false_master.send_all(FRAME.pack(len(BEGUN), len(BEGUN)) + bytes(len(BEGUN)))
            with trio.fail_after(30):
                assert await received(last) == b""
        await middle.stop()


async def received(stream: trio.SocketStream) -> bytes:
    """Receive log bytes until BEGUN is complete, or the stream ends."""
    taken, body = b"", b""
    while len(body) < len(BEGUN) and (part := await stream.receive_some()):
        taken += part
        while len(taken) >= FRAME.size and len(taken) >= (end := FRAME.size + FRAME.unpack_from(taken)[1]):
            body += taken[FRAME.size : end]
            taken = taken[end:]
    return body
