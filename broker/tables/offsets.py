"""Committed offsets of consumer groups by queue (class ConsumerOffsetManager)."""

import pathlib
from collections.abc import Iterable, Mapping

import msgspec

from rmqlab.broker.tables.offsetsfile import OffsetsFile
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.net.dispatch import Refusal
from rmqlab.store.files.configfile import load_config_file

MAX_KEYS = 500_000
"""Pairs of a topic and a group, at most."""
MAX_OFFSETS = 4_000_000
"""Offsets of a master's table that a slave copies, with its own."""
MAX_BYTES = 15 * 2**20
"""Bytes of the table's JSON: a slave copies it in one frame (16 MiB), or not at all."""
MAX_BYTES_FOR_NEW = 11 * 2**20
"""Bytes up to which queues without an offset get one. The rest is for the digits that known offsets gain."""
_KEY_BYTES = 3
"""Bytes of the JSON of a key, in addition to its name: `:{` and `},`, less the comma after its last offset."""
MAX_NAME_SIZE = 1024
"""Characters of a topic's and a group's name together. 4.9.8 has no limit but the header."""

Offsets = Mapping[str, Mapping[int, int]]
"""By `topic@group`, then by queue id."""


class ConsumerOffsetTable:
    """Committed offsets: the key is `topic@group`, the value an offset by queue id."""

    def __init__(self, path: pathlib.Path) -> None:
        loaded = load_config_file(path, ConsumerOffsets.decode)
        self.offsets: dict[str, dict[int, int]] = {}
        self.notes_own = False
        """True on a slave that keeps offsets committed to it (see rmqlab.broker.tables.offset_handback)."""
        self.own: dict[str, set[int]] = {}
        """Those queues, by `topic@group`, until the master has as much."""
        self._by_group: dict[str, dict[str, None]] = {}
        self._by_topic: dict[str, dict[str, None]] = {}
        self._count = 0
        self._bytes = 0
        """Bytes of the table's JSON, less a constant."""
        self._file = OffsetsFile(path, self.offsets)
        for key, queues in (loaded.offset_table if loaded else {}).items():
            self._replace(key, queues)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        """Store an offset, higher or lower than before (broker-requests#44).

        Return the former one.

        Raises Refusal where the table is full or the names are too long.
        """
        key = f"{topic}@{group}"
        queues = self.offsets.get(key)
        before = None if queues is None else queues.get(queue_id)
        size = _offset_size(queue_id, offset)
        if queues is None or before is None:
            self._check_room(key, 1, size)
            queues = self._queues(key)
            self._count += 1
        else:
            size -= _offset_size(queue_id, before)
            if size > 0:
                self._check_room(key, 0, size)
        self._bytes += size
        queues[queue_id] = offset
        self._file.dirty[key] = None
        if self.notes_own:
            self.own.setdefault(key, set()).add(queue_id)
        return before

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the committed offset, or None."""
        return self.offsets.get(f"{topic}@{group}", {}).get(queue_id)

    def queues_of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return a group's committed offsets in a topic, by queue id."""
        return self.offsets.get(f"{topic}@{group}", {})

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has committed offsets."""
        return list(self._by_group.get(group, ()))

    def groups_of(self, topic: str) -> set[str]:
        """Return the groups that have committed offsets in a topic."""
        return set(self._by_topic.get(topic, ()))

    def remove_group(self, group: str) -> None:
        """Drop all offsets of a group."""
        for topic in self._by_group.pop(group, {}):
            key = f"{topic}@{group}"
            queues = self.offsets.pop(key)
            self._count -= len(queues)
            self._bytes -= _key_size(key) + _queues_size(queues)
            self.own.pop(key, None)
            self._file.forget(key)
            groups = self._by_topic[topic]
            del groups[group]
            if not groups:
                del self._by_topic[topic]

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy one group's offsets in a topic to another group.

        Raises Refusal as `commit`.
        """
        if (queues := self.offsets.get(f"{topic}@{source}")) is not None:
            key = f"{topic}@{target}"
            known = self.offsets.get(key, {})
            self._check_room(key, len(queues) - len(known), _queues_size(queues) - _queues_size(known))
            self._replace(key, queues)

    def merge(self, key: str, fresh: Mapping[int, int], kept: Mapping[int, int]) -> None:
        """Replace the offsets of a key by a master's (store-ha#60, #69).

        Without `fresh` they stay. The offsets in `kept` stay as well, and count as committed here from now on. Does not
        save.
        """
        if fresh and fresh != self.offsets.get(key):
            self._replace(key, fresh)
        if kept:
            self._replace(key, {**self.offsets.get(key, {}), **kept})
            self.own[key] = set(kept)
        else:
            self.own.pop(key, None)

    def check_room_for(self, fresh: Offsets) -> None:
        """Raise BodyError if these and a master's offsets are too many.

        A master that sends other keys with each copy would fill the memory.
        """
        if len(self.offsets.keys() | fresh.keys()) > MAX_KEYS:
            raise BodyError(f"offsets of more than {MAX_KEYS} pairs of topic and group, with those held here")
        if max(map(len, fresh), default=0) > MAX_NAME_SIZE:
            raise BodyError(f"a topic and a group with more than {MAX_NAME_SIZE} characters")
        added = sum(len(queues) - len(self.offsets.get(key, ())) for key, queues in fresh.items())
        if added > 0 and self._count + added > MAX_OFFSETS:
            raise BodyError(f"more than {MAX_OFFSETS} offsets, with those held here")

    def encode(self) -> bytes:
        """Return the table as sent over the wire, fast if little has changed."""
        return self._file.encode()

    def save(self) -> None:
        """Write consumerOffset.json now, if the table changed since the last write."""
        self._file.save()

    async def save_in_slices(self) -> None:
        """Write consumerOffset.json in slices, between which other tasks run."""
        await self._file.save_in_slices()

    # -- changes ---------------------------------------------------------------------------------

    def _queues(self, key: str) -> dict[int, int]:
        """Return the offsets of a key, which may be new."""
        queues = self.offsets.get(key)
        if queues is None:
            queues = self.offsets[key] = {}
            self._bytes += _key_size(key)
            for topic, group in _names([key]):
                self._by_group.setdefault(group, {})[topic] = None
                self._by_topic.setdefault(topic, {})[group] = None
        return queues

    def _replace(self, key: str, fresh: Mapping[int, int]) -> None:
        if not fresh:
            return
        queues = self._queues(key)
        self._count += len(fresh) - len(queues)
        self._bytes += _queues_size(fresh) - _queues_size(queues)
        self.offsets[key] = dict(fresh)
        self._file.dirty[key] = None

    def _check_room(self, key: str, count: int, size: int) -> None:
        """Raise Refusal if a key has no room for more offsets.

        `count` are the new offsets, `size` the bytes that the key's offsets grow by.
        """
        if len(key) > MAX_NAME_SIZE:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"topic and group have more than {MAX_NAME_SIZE} characters")
        if key not in self.offsets:
            if len(self.offsets) >= MAX_KEYS:
                raise _table_is_full(f"{MAX_KEYS} pairs of topic and group")
            size += _key_size(key)
        limit = MAX_BYTES_FOR_NEW if count > 0 else MAX_BYTES
        if self._bytes + size > limit:
            raise _table_is_full(f"{limit} bytes, with {self._count} offsets of {len(self.offsets)} topics and groups")


def _table_is_full(limit: str) -> Refusal:
    return Refusal(
        ResponseCode.SYSTEM_ERROR, f"the table of consumer offsets has the most it may have, {limit}: delete groups"
    )


def _offset_size(queue_id: int, offset: int) -> int:
    return len(f"{queue_id}:{offset},")


def _queues_size(queues: Mapping[int, int]) -> int:
    return sum(_offset_size(*pair) for pair in queues.items())


def _key_size(key: str) -> int:
    return len(msgspec.json.encode(key)) + _KEY_BYTES


def _names(keys: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield topic and group of each key.

    A key without group, or with a second @, is skipped, as in Java.
    """
    for key in keys:
        topic, _, group = key.partition("@")
        if group and "@" not in group:
            yield topic, group
