"""Frames in both header codecs, and a connection that reports request outcomes.

What is compared must not be read by the code under test, so this knows nothing of `remoting/`.
"""

import json
import select
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

import attrs

from tests.interop.rawrequest import split_address

JSON, ROCKETMQ = 0, 1
RESPONSE, ONEWAY = 1, 2
LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST")

Fields = Mapping[str, object] | None


@attrs.frozen
class Command:
    """A received command: a reply, or a request of the server."""

    codec: int
    code: int
    flag: int
    opaque: int
    language: object
    version: int
    remark: str | None
    fields: dict[str, str] | None
    body: bytes


class Closed(Exception):
    """The server closed the connection."""


def frame(codec: int, header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), codec << 24 | len(header)) + header + body


def json_header(request_code: int, number: int, fields: Fields, **members: object) -> bytes:
    """`number` is the opaque; further members replace existing ones."""
    head: dict[str, object] = {"code": request_code, "flag": 0, "language": "JAVA", "opaque": number, "version": 409}
    if fields is not None:
        head["extFields"] = fields
    return json.dumps({**head, **members}).encode()


def text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def binary_header(
    code: int, opaque: int, fields: Fields, *, flag: int = 0, language: int = 0, version: int = 409, remark: bytes = b""
) -> bytes:
    pairs = [(key.encode(), text_of(value).encode()) for key, value in (fields or {}).items()]
    ext = b"".join(struct.pack(">h", len(k)) + k + struct.pack(">i", len(v)) + v for k, v in pairs)
    fixed = struct.pack(">hBhiii", code, language, version, opaque, flag, len(remark))
    return fixed + remark + struct.pack(">i", len(ext)) + ext


def read_command(codec: int, header: bytes, body: bytes) -> Command:
    if codec == JSON:
        head: dict[str, Any] = json.loads(header)
        return Command(
            codec,
            head["code"],
            head["flag"],
            head["opaque"],
            head["language"],
            head["version"],
            head.get("remark"),
            head.get("extFields"),
            body,
        )
    code, language, version, opaque, flag, size = struct.unpack_from(">hBhiii", header)
    at = 17
    remark = header[at : at + size].decode() if size else None
    at += size
    (end,) = struct.unpack_from(">i", header, at)
    at += 4
    fields: dict[str, str] | None = {} if end else None
    end += at
    while fields is not None and at < end:
        (size,) = struct.unpack_from(">h", header, at)
        key = header[at + 2 : at + 2 + size].decode()
        at += 2 + size
        (size,) = struct.unpack_from(">i", header, at)
        fields[key] = header[at + 4 : at + 4 + size].decode()
        at += 4 + size
    return Command(codec, code, flag, opaque, LANGUAGES[language], version, remark, fields, body)


class Connection:
    """One socket.

    Replies are kept by their opaque, requests of the server in order.
    """

    def __init__(self, address: str) -> None:
        self._socket = socket.create_connection(split_address(address), 10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = self._socket.getsockname()
        self.local = f"{host}:{port}"
        self._kept = bytearray()
        self.answers: dict[int, Command] = {}
        self.asked: list[Command] = []

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Closed where the server has gone away."""
        try:
            self._socket.sendall(data)
        except OSError as exc:
            raise Closed from exc

    def wait(self, opaque: int, timeout: float) -> Command | None:
        """Return the reply to one request, or None if it does not arrive in time.

        Closed at the end of the connection.
        """
        deadline = time.monotonic() + timeout
        while opaque not in self.answers:
            left = deadline - time.monotonic()
            if not select.select([self._socket], [], [], max(left, 0))[0]:
                return None
            self._receive()
        return self.answers.pop(opaque)

    def _receive(self) -> None:
        try:
            data = self._socket.recv(1 << 20)
        except OSError as exc:
            raise Closed from exc
        if not data:
            raise Closed
        self._kept += data
        while len(self._kept) >= 8:
            length, marked = struct.unpack_from(">II", self._kept)
            if len(self._kept) < 4 + length:
                return
            size = marked & 0xFFFFFF
            payload = bytes(self._kept[8 : 4 + length])
            del self._kept[: 4 + length]
            command = read_command(marked >> 24, payload[:size], payload[size:])
            if command.flag & RESPONSE:
                self.answers[command.opaque] = command
            else:
                self.asked.append(command)
