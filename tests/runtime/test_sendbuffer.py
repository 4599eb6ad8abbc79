"""The send buffer: the peer gets all bytes in order, however many a call takes."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.runtime.net import sendbuffer
from rmqlab.runtime.net.sendbuffer import SendBuffer

if TYPE_CHECKING:
    from rmqlab.runtime.net.fault_hooks import Transport


class SlowTransport:
    """Takes as many bytes of each call as it is told, then none."""

    def __init__(self, takes: Sequence[int]) -> None:
        self.takes = list(takes)
        self.taken = b""
        self.most_buffers = 1

    def send(self, data: bytes | memoryview) -> int:
        if not self.takes:
            raise BlockingIOError
        part = bytes(data)[: self.takes.pop(0)]
        self.taken += part
        return len(part)

    def sendmsg(self, buffers: Sequence[bytes | memoryview]) -> int:
        self.most_buffers = max(self.most_buffers, len(buffers))
        return self.send(b"".join(buffers))


def drain(buffer: SendBuffer, transport: SlowTransport) -> None:
    while buffer.buffers:
        buffer.send(cast("Transport", transport))


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=9), st.lists(st.integers(1, 20)), st.data())
def test_all_bytes_arrive_in_order_however_they_are_taken(
    parts: list[bytes], takes: list[int], data: st.DataObject
) -> None:
    """Between two calls more may come, and views may have become copies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sendbuffer, "_JOIN_BELOW", data.draw(st.sampled_from([0, 1000])))
        buffer, transport = SendBuffer(), SlowTransport(takes)
        buffer.buffers += [memoryview(part) for part in parts]
        with contextlib.suppress(BlockingIOError):
            drain(buffer, transport)
        assert transport.taken == b"".join(parts)[: len(transport.taken)]
        assert buffer.unsent() == sum(map(len, parts)) - len(transport.taken)
        buffer.own(bytes)
        assert all(isinstance(one, bytes) for one in buffer.buffers)
        buffer.buffers.append(b"end")
        transport.takes = [1000] * 20
        drain(buffer, transport)
    assert transport.taken == b"".join([*parts, b"end"])
    assert buffer.unsent() == 0


def test_a_call_has_no_more_buffers_than_the_system_allows() -> None:
    buffer, transport = SendBuffer(), SlowTransport([10**9] * 9)
    buffer.buffers += [bytes(300)] * 1500
    drain(buffer, transport)
    assert transport.taken == bytes(300 * 1500)
    assert 1 < transport.most_buffers <= 1024
