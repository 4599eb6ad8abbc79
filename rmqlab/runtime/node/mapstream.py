"""Receives the messages of a map codec from a stream of the event loop."""

from collections.abc import Callable
from typing import TypeVar

import trio

from rmqlab.runtime.node.mapcodec import CHUNK, MapCodec

M = TypeVar("M")


async def receive_messages(stream: trio.abc.ReceiveStream, codec: MapCodec[M], handle: Callable[[M], object]) -> None:
    """Pass on every message until the stream ends or breaks."""
    decoder = codec.decoder()
    try:
        while data := await stream.receive_some(CHUNK):
            decoder.feed(bytes(data))
            for message in decoder.messages():
                handle(message)
    except trio.BrokenResourceError:
        return
