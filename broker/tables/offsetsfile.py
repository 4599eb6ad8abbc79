"""consumerOffset.json: encoded key by key, only where something changed.

With 100,000 groups the file has 10 MB. It is encoded in slices and written by a thread, so that no client waits for it
(issue 12.6).
"""

import collections
import pathlib
from collections.abc import Mapping

import msgspec
import trio

from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.runtime.net.worker import in_thread
from rmqlab.store.files.configfile import keep_config_file

_WRITTEN_AT_ONCE = 512 * 1024
"""Bytes; a larger file is written by a thread."""
_ENCODED_AT_ONCE = 500
"""Keys that are encoded before other tasks have their turn."""


class OffsetsFile:
    """The file of a table of offsets, with the encoding of each key."""

    def __init__(self, path: pathlib.Path, offsets: Mapping[str, Mapping[int, int]]) -> None:
        self.dirty: dict[str, None] = {}
        """Keys whose offsets have changed since they were encoded. The table adds them."""
        self._path = path
        self._offsets = offsets
        self._encoded: dict[str, bytes] = {}
        self._to_encode = collections.deque[str]()
        self._is_changed = True
        self._saving = trio.Lock()

    def forget(self, key: str) -> None:
        """Drop the encoding of a key that is no longer in the table."""
        self.dirty.pop(key, None)
        self._encoded.pop(key, None)
        self._is_changed = True

    def encode(self) -> bytes:
        """Return the table in one line, as ConsumerOffsets.encode does."""
        while self._encode_some():
            pass
        end = b"}}}" if self._encoded else b"}}"
        return b'{"offsetTable":{' + b"},".join(self._encoded.values()) + end

    def save(self) -> None:
        """Write the file now, if the table changed since the last write."""
        self._is_changed |= bool(self.dirty)
        while self._encode_some():
            pass
        if self._is_changed:
            self._is_changed = False
            keep_config_file(self._path, self._content())

    async def save_in_slices(self) -> None:
        """Write the file as `save`, in slices, between which other tasks run."""
        async with self._saving:
            self._is_changed |= bool(self.dirty)
            while self._encode_some():
                await trio.lowlevel.checkpoint()
            if self._is_changed:
                self._is_changed = False
                try:
                    await self._write(self._content())
                except BaseException:  # no thread, or the broker is stopped: the next save writes it
                    self._is_changed = True
                    raise

    async def _write(self, content: bytes) -> None:
        if len(content) < _WRITTEN_AT_ONCE:
            keep_config_file(self._path, content)
        else:
            await in_thread(keep_config_file, self._path, content)

    def _encode_some(self) -> bool:
        """Encode some of the keys that changed. True if others are left."""
        if not self._to_encode:
            self._to_encode, self.dirty = collections.deque(self.dirty), {}
        for _ in range(min(len(self._to_encode), _ENCODED_AT_ONCE)):
            key = self._to_encode.popleft()
            if key not in self._offsets:  # removed meanwhile
                continue
            pairs = b",".join([b"%d:%d" % pair for pair in self._offsets[key].items()])
            self._encoded[key] = msgspec.json.encode(key) + b":{" + pairs
            self._is_changed = True
        return bool(self._to_encode or self.dirty)

    def _content(self) -> bytes:
        """Return the text of the file, as ConsumerOffsets.encode_pretty does."""
        if not self._encoded:
            return ConsumerOffsets().encode_pretty()
        lines = b"\n\t\t},\n\t\t".join(self._encoded.values())
        return b'{\n\t"offsetTable":{\n\t\t' + lines + b"\n\t\t}\n\t}\n}"
