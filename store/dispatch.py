"""From the commit log to the queues and the index (section 3.4).

A master's put enters its own record at once; this loop serves what came otherwise: a slave's stream, a start,
and a put whose queue or index had no room. It is the hot path of a slave, hence its shape: one unpack and one
slice per record, properties searched as bytes, entries collected per queue and written joined.
"""

import logging
import struct
from collections.abc import Callable
from typing import Final

import attrs

from remoting.message import (
    BLANK_MAGIC,
    HEADS,
    IPV6_MASK,
    MESSAGE_MAGIC,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    java_hash,
)
from store.commitlog import CommitLog
from store.consumequeue import ENTRY, ConsumeQueue
from store.index import Index, IndexEntry, key_hash
from store.logfile import LogFile
from store.queues import Queues

logger = logging.getLogger(__name__)

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_SCHEDULE_TOPIC_BYTES: Final = SCHEDULE_TOPIC.encode()

OnDispatched = Callable[[str, int, int, int, int], None]

# size, magic, queue id, queue offset, physical offset, sysFlag, store time, body length; hosts are IPv4
_RECORD: Final = struct.Struct(">ii4xi4xqqi8x8xq8x4x8xi")
_PREFIX: Final = struct.Struct(">ii")
_CHUNK: Final = 1 << 20  # bytes between two writes of the collected entries


def property_of(text: bytes, name: bytes) -> bytes:
    """Value of a property, b"" without one; of several the last. Text and name have separators around them."""
    at = text.rfind(name)
    if at < 0:
        return b""
    at += len(name)
    return text[at : text.index(b"\x02", at)]


def index_hashes(text: bytes, prefix: bytes) -> list[int]:
    """Of UNIQ_KEY, then of each of the KEYS (store-ha#24). `prefix` is the topic and `#`."""
    found = text.rfind(b"\x02UNIQ_KEY\x01") + 10
    hashes = [key_hash(prefix + text[found : text.index(b"\x02", found)])] if found >= 10 else []
    found = text.rfind(b"\x02KEYS\x01") + 6
    if found >= 6:
        hashes += [key_hash(prefix + key) for key in text[found : text.index(b"\x02", found)].split(b" ") if key]
    return hashes


_tags_codes: dict[bytes, int] = {}


def tags_code_in(text: bytes) -> int:
    """Tags code of a record; 0 without tags (store-ha#19)."""
    found = text.rfind(b"\x02TAGS\x01") + 6
    if found < 6:
        return 0
    tags = text[found : text.index(b"\x02", found)]
    code = _tags_codes.get(tags)
    if code is None:
        if len(_tags_codes) >= 4096:
            _tags_codes.clear()
        code = _tags_codes[tags] = java_hash(tags.decode("utf-8", "replace"))
    return code


def deliver_at(delay: str | bytes, stored_at: int, delay_millis: tuple[int, ...]) -> int | None:
    """Tags code of an entry in the schedule topic: when it is due (store-ha#20). None without a delay."""
    try:
        level = int(delay or 0)
    except ValueError:
        return None
    if level <= 0:
        return None
    return stored_at + (delay_millis[min(level, len(delay_millis)) - 1] if delay_millis else 1000)


@attrs.define(eq=False)
class Dispatcher:
    log: CommitLog
    queues: Queues
    index: Index | None
    delay_millis: tuple[int, ...]
    is_slave: bool
    on_dispatched: OnDispatched | None
    offset: int = attrs.field(default=0, init=False)  # everything below is in queues and index
    entered: int = attrs.field(default=0, init=False)  # queue entries made by `run`, whoever called it
    last_stored_at: int = attrs.field(default=0, init=False)
    _stuck_at: int = attrs.field(default=-1, init=False)
    _known: dict[tuple[bytes, int], tuple[ConsumeQueue, bytes]] = attrs.field(factory=dict, init=False)
    _touched: list[ConsumeQueue] = attrs.field(factory=list, init=False)
    _keys: list[IndexEntry] = attrs.field(factory=list, init=False)
    _events: list[tuple[str, int, int, int, int]] = attrs.field(factory=list, init=False)

    def run(self, max_bytes: int | None = None) -> int:
        """Dispatch what is readable, or a bit more than `max_bytes` of it; answer how many bytes.

        OSError when a queue or the index finds no room: call again later, nothing is lost.
        """
        start = self.offset = max(self.offset, self.log.min_offset)
        limit = self.log.max_offset if max_bytes is None else min(self.log.max_offset, start + max_bytes)
        while self.offset < limit:
            file = self.log.files.file_at(self.offset)
            if file is None:
                break
            try:
                reached = self._collect(file, min(limit, self.offset + _CHUNK))
                for queue in self._touched:
                    if queue.pending:
                        self.entered += len(queue.pending)
                        queue.append_pending()
                if self._keys and self.index is not None:
                    self.index.put(self._keys)
            finally:  # after an error the entries are collected again
                self._keys.clear()
                for queue in self._touched:
                    queue.pending.clear()
                    queue.pending_offset = -1
                self._touched.clear()
                events, self._events = self._events, []
            if reached == self.offset:
                break
            self.offset = reached
            if self.on_dispatched is not None:
                for event in events:
                    self.on_dispatched(*event)
        return self.offset - start

    def forget_queues(self) -> None:
        """Queues were deleted."""
        self._known.clear()

    def _collect(self, file: LogFile, limit: int) -> int:
        """Gather the entries of records that start below `limit`; answer where to go on."""
        mapped, wrote, first, room = file.map, file.wrote, file.first_offset, file.size - _RECORD.size
        unpack, known, index, watched = _RECORD.unpack_from, self._known, self.index, self.on_dispatched
        at, limit, pack, keys = self.offset - first, min(limit - first, wrote), ENTRY.pack, self._keys
        while at < limit:
            if at > room:
                return self._no_record(file, at)
            size, magic, queue_id, queue_offset, physical, sys_flag, stored_at, body_size = unpack(mapped, at)
            if magic != MESSAGE_MAGIC or size <= 88:
                return self._no_record(file, at)
            end = at + size
            if end > wrote:
                break
            tail_at = at + 88 + body_size
            if sys_flag & IPV6_MASK:
                head = HEADS[(sys_flag & IPV6_MASK) >> 4].unpack_from(mapped, at)
                stored_at, body_size = head[10], head[14]
                tail_at = at + HEADS[(sys_flag & IPV6_MASK) >> 4].size + body_size
            tail = mapped[tail_at:end]
            if not 3 <= len(tail) <= 0x10000 or body_size < 0:
                logger.error("commit log %d: lengths disagree with its size %d: skipped", first + at, size)
                at = end
                continue
            topic_end = 1 + tail[0]
            text = b"\x02" + tail[topic_end + 2 :] + b"\x02"

            key = (tail[1:topic_end], queue_id)
            queue, prefix = known.get(key) or self._open(key)
            kind = sys_flag & TRANSACTION_MASK
            if kind not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
                tags_code = tags_code_in(text)
                if key[0] == _SCHEDULE_TOPIC_BYTES:
                    due = deliver_at(property_of(text, b"\x02DELAY\x01"), stored_at, self.delay_millis)
                    tags_code = tags_code if due is None else due
                if queue_offset == queue.pending_offset:
                    queue.pending.append(pack(physical, size, tags_code))
                    queue.pending_offset = queue_offset + 1
                else:
                    self._begin(queue, queue_offset, physical, size, tags_code)
                if watched is not None:
                    self._events.append((queue.topic, queue_id, queue_offset + 1, tags_code, stored_at))
            if index is not None and kind != TRANSACTION_ROLLBACK:
                for hashed in index_hashes(text, prefix):
                    keys.append((hashed, physical, stored_at))
            self.last_stored_at = stored_at
            at = end
        return first + at

    def _open(self, key: tuple[bytes, int]) -> tuple[ConsumeQueue, bytes]:
        """The queue, and what its messages' index keys begin with."""
        queue = self.queues.open(key[0].decode("utf-8", "replace"), key[1])
        known = self._known[key] = (queue, key[0] + b"#")
        return known

    def _begin(self, queue: ConsumeQueue, queue_offset: int, physical: int, size: int, tags_code: int) -> None:
        """The first entry of a queue in this chunk, or one that does not follow the last."""
        if queue.pending:
            self.entered += len(queue.pending)
            queue.append_pending()
        if physical + size <= queue.max_physical:
            return
        queue.pending_offset = -1
        if queue.max_offset == queue_offset and queue.files.files:
            queue.pending.append(ENTRY.pack(physical, size, tags_code))
        else:
            queue.append(queue_offset, physical, size, tags_code)
            self.entered += 1
        if queue.max_offset + len(queue.pending) == queue_offset + 1:
            queue.pending_offset = queue_offset + 1
        self._touched.append(queue)

    def _no_record(self, file: LogFile, at: int) -> int:
        """What stands here is the blank at a file's end, not yet whole, or nothing that can be read."""
        here = file.first_offset + at
        if at + 8 > file.wrote:
            return here
        _, magic = _PREFIX.unpack_from(file.map, at)
        if magic == BLANK_MAGIC:
            return file.first_offset + file.size if file.is_full else here
        if self.is_slave:
            # As in RocketMQ, nothing mends it but emptying the slave; dispatch stays behind (section 4.9).
            if self._stuck_at != here:
                logger.warning("commit log %d: magic %08X: the slave cannot dispatch on", here, magic & 0xFFFFFFFF)
            self._stuck_at = here
            return here
        logger.error("commit log %d: magic %08X: the rest of the file is skipped", here, magic & 0xFFFFFFFF)
        return file.end_offset
