"""attrs classes as msgpack maps, one after another on a stream: how processes of one machine talk.

A codec is made of a union of classes; the `type` of each map names its class. Unknown types and fields are
errors: both ends come from one source tree.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import cattrs
import msgpack
import trio
from cattrs.strategies import configure_tagged_union

from rmqlab.runtime.bounds import cut_text

MAX_MESSAGE = 16 * 2**20
MAX_ITEMS = 200_000
"""Entries of one list or map. A header of 5 bytes may announce 2^32, and room for them is made at once."""
CHUNK = 64 * 2**10
_REASON_CHARACTERS = 300
"""What is kept of the reason why a message was rejected: it may quote the message."""

M = TypeVar("M")


class ControlError(Exception):
    """The other side sent something that is no message, or one too large. Close the connection."""


class MapCodec(Generic[M]):
    """Bytes of messages and messages of bytes, for one union of classes."""

    def __init__(self, union: Any) -> None:
        self._union = union
        self._converter = cattrs.Converter(forbid_extra_keys=True)
        configure_tagged_union(union, self._converter, tag_name="type")

    def encode(self, message: M) -> bytes:
        """Bytes of one message. Values that msgpack has no form for are sent as their text.

        ControlError for a message that is too large or cannot be encoded: `rmqlab.runtime.bounds` prevents both.
        """
        try:
            plain = self._converter.unstructure(message, unstructure_as=self._union)
            encoded: bytes = msgpack.packb(plain, default=str)
        except Exception as exc:
            raise ControlError(f"{type(message).__name__} cannot be encoded: {_reason(exc)}") from exc
        if len(encoded) > MAX_MESSAGE:
            raise ControlError(f"{type(message).__name__} of {len(encoded)} bytes; at most {MAX_MESSAGE}")
        return encoded

    def decode(self, value: Any) -> M:
        """The message that a map stands for."""
        try:
            message: M = self._converter.structure(value, self._union)
        except Exception as exc:  # foreign: any value of any type
            raise ControlError(f"not a control message: {_reason(exc)}") from exc
        return message

    def decoder(self) -> "MapDecoder[M]":
        return MapDecoder(self)


class MapDecoder(Generic[M]):
    """Feed it what arrived, then take the messages that are complete."""

    def __init__(self, codec: MapCodec[M]) -> None:
        self._codec = codec
        self._unpacker = msgpack.Unpacker(
            max_buffer_size=MAX_MESSAGE + CHUNK,
            max_array_len=MAX_ITEMS,
            max_map_len=MAX_ITEMS,
            strict_map_key=False,
        )

    def feed(self, data: bytes) -> None:
        try:
            self._unpacker.feed(data)
        except msgpack.BufferFull:
            raise ControlError(f"a message of more than {MAX_MESSAGE} bytes") from None

    def messages(self) -> Iterator[M]:
        while True:
            try:
                value = next(self._unpacker)
            except StopIteration:
                return
            except Exception as exc:  # foreign: keys that are lists, texts that are no UTF-8, too deep, too many
                raise ControlError(f"not msgpack: {_reason(exc)}") from exc
            yield self._codec.decode(value)


def _reason(exc: Exception) -> str:
    return cut_text(repr(exc), _REASON_CHARACTERS)


async def receive_messages(stream: trio.abc.ReceiveStream, codec: MapCodec[M], handle: Callable[[M], object]) -> None:
    """Hand over every message until the end of the stream; a connection that breaks has ended as well."""
    decoder = codec.decoder()
    try:
        while data := await stream.receive_some(CHUNK):
            decoder.feed(bytes(data))
            for message in decoder.messages():
                handle(message)
    except trio.BrokenResourceError:
        return
