"""What two clusters say, freed of what must differ: addresses, ports, times.

Records and fastjson's bodies are read here.
"""

import json
import re
import struct
import time
from collections.abc import Mapping
from typing import Any

import attrs

DAY = 86_400_000
_MEASURED = {"consumeTps", "tps", "delayTime", "sum", "avgpt"}
"""Members of bodies whose values depend on when they are asked for."""
_DATE = re.compile(r"20\d\d-\d\d-\d\d#\d\d:\d\d:\d\d:\d{3}")


@attrs.frozen
class Names:
    """What one cluster's own values are called in a comparison."""

    texts: Mapping[str, str]
    """Addresses and other values, by their placeholders."""

    def text(self, text: str) -> str:
        for own, name in self.texts.items():
            text = text.replace(own, name)
        text = re.sub(r"\b1[789]\d{11}\b", lambda found: str(self.number(int(found[0]))), text)
        return _DATE.sub("DATE", text)

    def number(self, value: int) -> int | str:
        return "MILLIS" if abs(time.time() * 1000 - value) < DAY else value

    def plain(self, value: Any) -> Any:
        """Return a JSON value with names for the cluster's own values.

        Lists in an order of their own, for most are sets.
        """
        if isinstance(value, dict):
            return {self.text(key): "ANY" if key in _MEASURED else self.plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return sorted((self.plain(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
        if isinstance(value, str):
            return self.text(value)
        return self.number(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _Reader:
    """fastjson's dialect: bare numbers and objects may be keys."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._decoder = json.JSONDecoder()

    def value(self) -> Any:
        match self._peek():
            case "{":
                return self._object()
            case "[":
                return self._list()
        value, self._at = self._decoder.raw_decode(self._text, self._at)
        return value

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._at += 1
        while self._peek() != "}":
            key = self.value()
            self._expect(":")
            found[key if isinstance(key, str) else json.dumps(key, sort_keys=True)] = self.value()
            if self._peek() == ",":
                self._at += 1
        self._at += 1
        return found

    def _list(self) -> list[Any]:
        found = []
        self._at += 1
        while self._peek() != "]":
            found.append(self.value())
            if self._peek() == ",":
                self._at += 1
        self._at += 1
        return found

    def _peek(self) -> str:
        while self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at]

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            raise ValueError(f"{mark!r} expected at {self._at} of {self._text!r}")
        self._at += 1


def read_json(body: bytes) -> Any:
    return _Reader(body.decode()).value()


@attrs.frozen
class Record:
    """A stored message without broker-specific values: hosts and store time."""

    topic: str
    queue: int
    queue_offset: int
    physical_offset: int
    size: int
    flag: int
    sys_flag: int
    born_at: int | str
    reconsume_times: int
    prepared_offset: int
    body: bytes
    crc: int
    properties: Mapping[str, str]


def records(data: bytes, names: Names) -> list[Record]:
    """Records one after the other, up to the first zero size, blank or odd bytes."""
    found, at = [], 0
    while at + 8 <= len(data):
        size, magic = struct.unpack_from(">iI", data, at)
        if size <= 0 or magic != 0xDAA320A7:
            break
        found.append(_record(data[at : at + size], names))
        at += size
    return found


def _record(data: bytes, names: Names) -> Record:
    size, _, crc, queue, flag, queue_offset, physical_offset, sys_flag, born_at = struct.unpack_from(">iIiiiqqiq", data)
    at = 48
    at += 20 if sys_flag & 16 else 8
    at += 8  # store time
    at += 20 if sys_flag & 32 else 8
    times, prepared, length = struct.unpack_from(">iqi", data, at)
    at += 16
    body = data[at : at + length]
    at += length
    topic = data[at + 1 : at + 1 + data[at]].decode()
    at += 1 + data[at]
    (length,) = struct.unpack_from(">h", data, at)
    text = data[at + 2 : at + 2 + length].decode("utf-8", "replace")
    pairs = [part.split("\x01", 1) for part in text.split("\x02") if part]
    properties = {pair[0]: names.text(pair[1]) if len(pair) > 1 else "(no value)" for pair in pairs}
    if topic == "OFFSET_MOVED_EVENT":
        body = repr(names.plain(read_json(body))).encode()
    return Record(
        topic,
        queue,
        queue_offset,
        physical_offset,
        size,
        flag,
        sys_flag,
        names.number(born_at),
        times,
        prepared,
        body,
        crc,
        dict(sorted(properties.items())),
    )
