"""Encodes attrs classes as msgpack maps, for streams between local processes.

A codec is created for a union of classes; the key `type` of each map names its class. Unknown types and fields are
errors, because both ends run the same version.
"""

import typing
from collections.abc import Iterator, Mapping
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
    """Encodes and decodes the messages of one union of classes.

    Plain fields are text, numbers, and containers of them. A field can also have a class of such fields.
    """

    def __init__(self, union: Any) -> None:
        self._classes = {cls.__name__: cls for cls in typing.get_args(union)}
        self._fields: dict[type[Any], Mapping[str, Any]] = {}
        for cls in self._classes.values():
            self._learn(cls)

    def encode(self, message: M) -> bytes:
        """Return the bytes of one message.

        Values that msgpack does not support are sent as str().

        ControlError if the message is too large or cannot be encoded: `rmqlab.runtime.bounds` prevents both.
        """
        try:
            plain = {"type": type(message).__name__, **self._to_plain(message)}
            encoded: bytes = msgpack.packb(plain, default=self._unpackable)
        except Exception as exc:
            raise ControlError(f"{type(message).__name__} cannot be encoded: {_reason(exc)}") from exc
        if len(encoded) > MAX_MESSAGE:
            raise ControlError(f"{type(message).__name__} of {len(encoded)} bytes; at most {MAX_MESSAGE}")
        return encoded

    def decode(self, value: Any) -> M:
        """Return the message of a map. ControlError if it is invalid."""
        try:
            values = dict(value)
            message: M = self._from_plain(self._classes[values.pop("type")], values)
        except Exception as exc:  # the value comes from outside and can have any type
            raise ControlError(f"not a control message: {_reason(exc)}") from exc
        return message

    def decoder(self) -> "MapDecoder[M]":
        return MapDecoder(self)

    def _learn(self, cls: type[Any]) -> None:
        """Note the fields of a class and their types, as `isinstance` accepts them.

        Also those of the classes of its fields.
        """
        kinds = {field.name: typing.get_origin(field.type) or field.type for field in attrs.fields(cls)}
        self._fields[cls] = {name: (int, float) if kind is float else kind for name, kind in kinds.items()}
        for kind in kinds.values():
            if attrs.has(kind):
                self._learn(kind)

    def _to_plain(self, value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in self._fields[type(value)]}

    def _unpackable(self, value: Any) -> Any:
        return self._to_plain(value) if type(value) in self._fields else str(value)

    def _from_plain(self, cls: type[Any], values: Any) -> Any:
        expected = self._fields[cls]
        if values.keys() != expected.keys():
            raise ValueError(f"{cls.__name__}: expected the fields {', '.join(expected)}")
        for name, kind in expected.items():
            if kind in self._fields:
                values[name] = self._from_plain(kind, values[name])
            elif kind is not Any and not isinstance(values[name], kind):
                raise TypeError(f"{cls.__name__}.{name}: expected {kind}, not {type(values[name]).__name__}")
        return cls(**values)


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
