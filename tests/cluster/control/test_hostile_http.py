"""Clients that send too much, too little, too slowly, or do not read."""

from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, lockstep_stream_pair, wait_all_tasks_blocked

from rmqlab.cluster.control.endpoint import Endpoint
from rmqlab.cluster.control.messages import SendItem
from rmqlab.cluster.control.outputs import Fault
from rmqlab.cluster.control.server import Limits
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.supervisor import Supervisor
from tests.cluster.control.conftest import Api, parse, request_bytes, server_of

HEAD, BODY = 32 * 2**10, 2**20


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    received = b""
    while part := await stream.receive_some():
        received += part
    return received


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100,
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_invalid_http_gets_400_and_the_next_request_is_served(
    api: Api, autojump_clock: MockClock, data: bytes
) -> None:
    del autojump_clock
    got = await api.send(data)
    assert got.status in (400, 408)
    assert (await api.ask("GET", "/v1/faults")).status == 200
    assert not api.supervisor.processes.errors.counts


@given(data=st.binary(max_size=300))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_are_a_defect(supervisor: Supervisor, data: bytes) -> None:
    async def run() -> None:
        async with trio.open_nursery() as nursery:
            api = Api(server_of(supervisor, Limits(request_seconds=0.001, linger_seconds=0.001)), nursery)
            stream = api.connect()
            await stream.send_all(data)
            await stream.send_eof()
            await read_all(stream)
            nursery.cancel_scope.cancel()

    trio.run(run, clock=MockClock(autojump_threshold=0))
    assert not supervisor.processes.errors.counts


@pytest.mark.parametrize("data", [b"", b"GET /v1", request_bytes("POST", "/v1/wait", {"condition": "ready"})[:-1]])
async def test_half_a_request_times_out(api: Api, autojump_clock: MockClock, data: bytes) -> None:
    del autojump_clock
    stream = api.connect()
    await stream.send_all(data)
    got = parse(await read_all(stream))
    assert (got.status, got.error["message"]) == (408, "the request was not complete after 10 s")
    assert trio.current_time() == pytest.approx(10, abs=0.1)


async def test_a_request_that_trickles_in_times_out_too(api: Api, autojump_clock: MockClock) -> None:
    del autojump_clock
    stream = api.connect()
    with pytest.raises(trio.BrokenResourceError):  # noqa: PT012 -- until the server closes
        for byte in request_bytes("GET", "/v1/faults") * 10:
            await stream.send_all(bytes([byte]))
            await trio.sleep(1)
    assert parse(await read_all(stream)).status == 408


async def test_a_head_without_end_is_431(api: Api) -> None:
    got = await api.send(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000)
    assert got.status == 431


@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_head_over_32_kib_is_431(api: Api, pieces: int) -> None:
    empty = len(request_bytes("GET", "/v1/faults", X="x")) - 1
    for size, status in ((HEAD, 200), (HEAD + 1, 431), (60_000, 431)):
        data = request_bytes("GET", "/v1/faults", X="x" * (size - empty))
        assert len(data) == size
        assert (await api.send(data, pieces=pieces)).status == status


@pytest.mark.parametrize("is_announced", [True, False])
async def test_a_body_over_1_mb_is_413_as_soon_as_it_is_known(
    api: Api, autojump_clock: MockClock, *, is_announced: bool
) -> None:
    del autojump_clock
    stream = api.connect()
    if is_announced:
        head = request_bytes("POST", "/v1/wait", b"", Content_Length=str(BODY + 1))
    else:
        head = request_bytes("POST", "/v1/wait", b"", Content_Length="", Transfer_Encoding="chunked")
    await stream.send_all(head)
    if not is_announced:
        await stream.send_all(b"100000\r\n" + b" " * BODY + b"\r\n1\r\n \r\n")
    got = parse(await read_all(stream))
    assert (got.status, got.error["message"]) == (413, "the body has more than 1048576 bytes")


async def test_a_body_of_1_mb_is_read_in_any_number_of_pieces(api: Api) -> None:
    body = b'{"condition": "kiled broker-a"}'.ljust(BODY)
    data = request_bytes("POST", "/v1/wait", body)
    assert [(await api.send(data, pieces=pieces)).status for pieces in (1, 17)] == [422, 422]


async def test_a_client_that_waits_for_100_continue_gets_it_once_it_is_admitted(api: Api) -> None:
    body = b'{"condition": "kiled broker-a"}'
    head = request_bytes("POST", "/v1/wait", b"", Content_Length=str(len(body)), Expect="100-continue")
    stream = api.connect()
    await stream.send_all(head)
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 100 ")
    await stream.send_all(body)
    assert parse(await read_all(stream)).status == 422
    assert (await api.send(head.replace(b"Bearer", b"Basic"))).status == 401


async def test_a_client_that_leaves_cancels_its_request(
    supervisor: Supervisor, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    del autojump_clock
    began, ended = trio.Event(), trio.Event()

    async def work(_cluster: Cluster, _arguments: Any, _send: SendItem) -> None:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    api = Api(server_of(supervisor, Limits(half_closed_seconds=3)), nursery)
    api.server.app.endpoints = (Endpoint(name="w", method="GET", path="/v1/w", summary="-", call=work, returns=Fault),)
    stream = api.connect()
    await stream.send_all(request_bytes("GET", "/v1/w"))
    await began.wait()
    left_at = trio.current_time()
    await stream.aclose()
    await ended.wait()
    assert trio.current_time() - left_at == pytest.approx(3)


async def test_a_client_that_closes_its_sending_half_gets_its_response(
    supervisor: Supervisor, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    del autojump_clock

    async def work(_cluster: Cluster, _arguments: Any, _send: SendItem) -> list[Any]:
        await trio.sleep(1)
        return []

    api = Api(server_of(supervisor), nursery)
    api.server.app.endpoints = (Endpoint(name="w", method="GET", path="/v1/w", summary="-", call=work, returns=Fault),)
    stream = api.connect()
    await stream.send_all(request_bytes("GET", "/v1/w"))
    await stream.send_eof()
    got = parse(await read_all(stream))
    assert (got.status, got.document) == (200, [])


async def test_a_client_that_does_not_read_loses_its_connection(
    supervisor: Supervisor, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    del autojump_clock

    async def flood(_cluster: Cluster, _arguments: Any, send: SendItem) -> None:
        while True:
            await send("x" * 10_000)

    server = server_of(supervisor)
    server.app.endpoints = (
        Endpoint(name="f", method="GET", path="/v1/f", summary="-", call=flood, returns=Fault, is_stream=True),
    )
    ours, theirs = lockstep_stream_pair()
    nursery.start_soon(server.serve_connection, theirs)
    await ours.send_all(request_bytes("GET", "/v1/f"))
    await trio.sleep(1)
    assert server._connections == 1
    await trio.sleep(20)
    assert server._connections == server._streams == 0
    assert not supervisor.processes.errors.counts


async def test_connections_beyond_the_limit_get_503_and_later_ones_nothing(
    supervisor: Supervisor, nursery: trio.Nursery
) -> None:
    api = Api(server_of(supervisor, Limits(connections=2, half_closed_seconds=0)), nursery)
    held = [api.connect() for _ in range(2)]
    for stream in held:
        await stream.send_all(request_bytes("GET", "/v1/events"))
    await wait_all_tasks_blocked()
    late = [api.connect() for _ in range(2)]
    for stream in late:
        received = b""
        while b"too_many_connections" not in received:
            received += await stream.receive_some()
        assert received.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert await read_all(api.connect()) == b""
    for stream in (*held, *late):
        await stream.aclose()
    await wait_all_tasks_blocked()
    assert (await api.ask("GET", "/v1/faults")).status == 200


async def test_connections_without_a_request_make_room_for_others(
    supervisor: Supervisor, nursery: trio.Nursery
) -> None:
    """Without a token, 64 of them kept out all clients for 10 s, again and again."""
    api = Api(server_of(supervisor, Limits(connections=2)), nursery)
    mute = []
    for _ in range(2):
        mute.append(api.connect())
        await wait_all_tasks_blocked()  # tasks begin in any order
    await mute[1].send_all(request_bytes("GET", "/v1/faults")[:-2])
    await wait_all_tasks_blocked()
    assert (await api.ask("GET", "/v1/faults")).status == 200
    assert await read_all(mute[0]) == b""
    await mute[1].send_all(b"\r\n")
    assert b"200 OK" in await read_all(mute[1])
    assert not supervisor.processes.errors.counts


async def test_streams_leave_room_for_commands(supervisor: Supervisor, nursery: trio.Nursery) -> None:
    api = Api(server_of(supervisor, Limits(streams=1)), nursery)
    stream = api.connect()
    await stream.send_all(request_bytes("GET", "/v1/events"))
    assert b"text/event-stream" in await stream.receive_some()
    got = await api.ask("GET", "/v1/events")
    assert (got.status, got.error["code"]) == (503, "too_many_streams")
    assert (await api.ask("GET", "/v1/faults")).status == 200


async def test_events_are_sent_as_they_become_known_and_a_silent_stream_has_comments(
    api: Api, autojump_clock: MockClock
) -> None:
    del autojump_clock
    stream = api.connect()
    api.supervisor.record("broker-a", "command", command="before")
    await stream.send_all(request_bytes("GET", "/v1/events?last=1"))
    received = b""
    while b"before" not in received:
        received += await stream.receive_some()
    await wait_all_tasks_blocked()
    api.supervisor.record("broker-a", "command", command="line\nbreak")
    received = bytes(await stream.receive_some())
    assert b'\r\ndata: {"at": ' in received
    assert b'"command": "line\\nbreak"}\n\n' in received
    assert b":\n\n" in await stream.receive_some()
    assert trio.current_time() == pytest.approx(15, abs=0.1)


async def test_a_defect_of_a_stream_is_its_last_event(supervisor: Supervisor, nursery: trio.Nursery) -> None:
    async def fail(_cluster: Cluster, _arguments: Any, send: SendItem) -> None:
        await send({"at": 1})
        raise ZeroDivisionError("by zero")

    api = Api(server_of(supervisor), nursery)
    api.server.app.endpoints = (
        Endpoint(name="f", method="GET", path="/v1/f", summary="-", call=fail, returns=Fault, is_stream=True),
    )
    got = await api.ask("GET", "/v1/f")
    assert got.body.index(b'data: {"at": 1}') < got.body.index(
        b'event: error\ndata: {"error": {"code": "internal_error"'
    )
    assert got.body.endswith(b"\r\n0\r\n\r\n")
    assert supervisor.processes.errors.counts == {"control API f": 1}


async def test_a_stream_that_the_stop_of_the_cluster_cuts_has_its_last_chunk(supervisor: Supervisor) -> None:
    async with trio.open_nursery() as serving:
        stream = Api(server_of(supervisor), serving).connect()
        await stream.send_all(request_bytes("GET", "/v1/events"))
        assert b"text/event-stream" in await stream.receive_some()
        serving.cancel_scope.cancel()
    assert (await read_all(stream)).endswith(b"0\r\n\r\n")


async def test_a_request_that_the_stop_of_the_cluster_ends_gets_503(supervisor: Supervisor) -> None:
    began = trio.Event()

    async def work(_cluster: Cluster, _arguments: Any, _send: SendItem) -> None:
        async with trio.open_nursery():  # a cancellation arrives as a group
            began.set()
            await trio.sleep_forever()

    async with trio.open_nursery() as serving:
        api = Api(server_of(supervisor), serving)
        api.server.app.endpoints = (
            Endpoint(name="w", method="GET", path="/v1/w", summary="-", call=work, returns=Fault),
        )
        stream = api.connect()
        await stream.send_all(request_bytes("GET", "/v1/w"))
        with trio.fail_after(5):
            await began.wait()
        serving.cancel_scope.cancel()
    got = parse(await read_all(stream))
    assert (got.status, got.error["code"]) == (503, "stopping")


async def test_a_client_that_does_not_read_does_not_delay_the_stop_of_the_cluster(
    supervisor: Supervisor, autojump_clock: MockClock
) -> None:
    del autojump_clock
    ours, theirs = lockstep_stream_pair()
    async with trio.open_nursery() as serving:
        serving.start_soon(server_of(supervisor).serve_connection, theirs)
        await ours.send_all(request_bytes("GET", "/v1/events"))
        assert b"text/event-stream" in await ours.receive_some()
        await wait_all_tasks_blocked()
        serving.cancel_scope.cancel()
    assert trio.current_time() <= 1
    assert not supervisor.processes.errors.counts
