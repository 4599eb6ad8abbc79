"""Encodes attrs classes as msgpack maps, for streams between local processes.

A codec is created for a union of classes; the key `type` of each map names its class. Unknown types and fields are
errors, because both ends run the same version.
"""

import typing
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import attrs
import msgpack

from rmqlab.runtime.bounds import cut_text

MAX_MESSAGE = 16 * 2**20
MAX_ITEMS = 200_000
"""Maximum entries of a list or map: msgpack preallocates them, and a header of 5 bytes can announce 2^32."""
CHUNK = 64 * 2**10
_REASON_CHARACTERS = 300
"""Maximum characters of the reason for rejecting a message, which can quote the message."""

M = TypeVar("M")


class ControlError(Exception):
    """A message is invalid or too large. Close the connection."""


class MapCodec(Generic[M]):
    """Encodes and decodes the messages of one union of classes."""

    def __init__(self, union: Any) -> None:
        from cattrs import Converter  # noqa: PLC0415 -- half of the time of a short command, which has a flat codec
        from cattrs.strategies import configure_tagged_union  # noqa: PLC0415

        self._union = union
        self._converter = Converter(forbid_extra_keys=True)
        configure_tagged_union(union, self._converter, tag_name="type")

    def encode(self, message: M) -> bytes:
        """Return the bytes of one message.

        Values that msgpack does not support are sent as str().

        ControlError if the message is too large or cannot be encoded: `rmqlab.runtime.bounds` prevents both.
        """
        try:
            encoded: bytes = msgpack.packb(self._to_plain(message), default=str)
        except Exception as exc:
            raise ControlError(f"{type(message).__name__} cannot be encoded: {_reason(exc)}") from exc
        if len(encoded) > MAX_MESSAGE:
            raise ControlError(f"{type(message).__name__} of {len(encoded)} bytes; at most {MAX_MESSAGE}")
        return encoded

    def decode(self, value: Any) -> M:
        """Return the message of a map. ControlError if it is invalid."""
        try:
            message = self._from_plain(value)
        except Exception as exc:  # the value comes from outside and can have any type
            raise ControlError(f"not a control message: {_reason(exc)}") from exc
        return message

    def decoder(self) -> "MapDecoder[M]":
        return MapDecoder(self)

    def _to_plain(self, message: M) -> Any:
        return self._converter.unstructure(message, unstructure_as=self._union)

    def _from_plain(self, value: Any) -> M:
        message: M = self._converter.structure(value, self._union)
        return message


class FlatCodec(MapCodec[M]):
    """A codec for classes whose fields are plain values.

    Plain are text, numbers, and containers of them.
    The bytes are those of `MapCodec`, without cattrs.
    """

    def __init__(self, union: Any) -> None:
        self._fields = {
            cls: {field.name: typing.get_origin(field.type) or field.type for field in attrs.fields(cls)}
            for cls in typing.get_args(union)
        }
        self._classes = {cls.__name__: cls for cls in self._fields}

    def _to_plain(self, message: M) -> Any:
        values = {name: getattr(message, name) for name in self._fields[type(message)]}
        return {"type": type(message).__name__, **values}

    def _from_plain(self, value: Any) -> M:
        cls = self._classes[value["type"]]
        expected = self._fields[cls]
        if value.keys() != {"type", *expected}:
            raise ValueError(f"{cls.__name__}: expected the fields {', '.join(expected)}")
        for name, kind in expected.items():
            if kind is not Any and not isinstance(value[name], kind):
                raise TypeError(f"{cls.__name__}.{name}: expected {kind.__name__}, not {type(value[name]).__name__}")
        message: M = cls(**{name: value[name] for name in expected})
        return message


class MapDecoder(Generic[M]):
    """Splits a stream of bytes into messages.

    Feed it received bytes, then iterate over complete messages.
    """

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
            except Exception as exc:  # for example lists as keys, invalid UTF-8, too deep, too large
                raise ControlError(f"not msgpack: {_reason(exc)}") from exc
            yield self._codec.decode(value)


def _reason(exc: Exception) -> str:
    return cut_text(repr(exc), _REASON_CHARACTERS)
