"""Copies a master's metadata to its slave: topics, offsets, groups.

Source: store-and-ha section 5.3; class SlaveSynchronize. The offsets are those of consumers and of delayed messages.
As in 4.9, the slave copies nothing to the master, and the master's consumer offsets overwrite the slave's, older or
newer: so progress made on a slave is lost. Two switches correct this with requests that any master serves (see
rmqlab.broker.tables.offset_handback). A reply that does not parse, or has numbers beyond 64 bits, is ignored
and logged once.
"""

import logging
import pathlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NoReturn, TypeVar

import attrs
import trio

from rmqlab.broker.failure_log import FailureLog, short
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.tables.offset_handback import kept_offsets
from rmqlab.broker.tables.offsets import ConsumerOffsetTable
from rmqlab.broker.tables.subscriptions import SubscriptionGroupTable
from rmqlab.broker.tables.tablefile import TooManyError
from rmqlab.broker.tables.topics import TopicTable
from rmqlab.remoting.bodies.group import SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.remoting.bodies.runtime import KVTable
from rmqlab.remoting.bodies.topic import TopicConfigSerializeWrapper
from rmqlab.remoting.body import Body, BodyError
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request
from rmqlab.remoting.header import TRUE
from rmqlab.remoting.headers.offset import UpdateConsumerOffsetRequestHeader
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError
from rmqlab.runtime.net.worker import in_thread
from rmqlab.store.files.configfile import keep_config_file

log = logging.getLogger(__name__)

FIRST_AFTER = 3.0
PERIOD = 10.0
TIMEOUT = 3.0
HAND_BACK_AFTER = 0.1
"""Seconds in which the slave collects offsets before it hands them back: a consumer commits those of all its queues."""
VIP_PORT_DISTANCE = 2
_DECODED_AT_ONCE = 512 * 1024
"""Bytes from which on a body is decoded by a thread: 14 MB of offsets need 0.9 s."""
_MERGED_AT_ONCE = 500
"""Pairs of topic and group whose offsets are merged before other tasks have their turn."""
_MOST_DELAY_BYTES = 64 * 1024
"""Of delay offsets. A real broker's 18 levels need some 500 bytes."""

B = TypeVar("B", bound=Body)
Stay = dict[int, tuple[int, int]]
"""Offsets that stay, and the master's, by queue id."""


@attrs.define(eq=False)
class MetadataSync:
    """Copies the metadata of a slave's master."""

    own_address: str
    topics: TopicTable
    offsets: ConsumerOffsetTable
    subscriptions: SubscriptionGroupTable
    delay_offset_path: pathlib.Path
    client: RemotingClient
    emit: Callable[..., None]
    known_master: KnownMaster
    """While the nameservers report no master, the slave copies nothing (store-ha#61)."""
    keeps_newer: bool = False
    """Keep offsets committed here, and offsets that a restarted master lost; 4.9 does neither."""
    hands_back: bool = False
    """Keep offsets committed here, and commit them to the master."""
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    _failures: FailureLog = attrs.field(factory=lambda: FailureLog(log), init=False)
    """The last failure of each request code."""
    _boot: str | None = attrs.field(default=None, init=False)
    """Start time of the master whose offsets were copied last."""
    _reported_boot: str | None = attrs.field(default=None, init=False)
    _has_forgotten: bool = attrs.field(default=False, init=False)
    _is_syncing: bool = attrs.field(default=False, init=False)
    _reported_kept: dict[str, Stay] = attrs.field(factory=dict, init=False)
    _committed: set[str] = attrs.field(factory=set, init=False)  # keys to hand back before the next sync
    _has_committed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _handing_back: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Two hand-backs at a time could send an older offset last."""

    async def sync_forever(self) -> NoReturn:
        """Copy after 3 s, then every 10 s."""
        due_at = trio.current_time() + FIRST_AFTER
        while True:
            await trio.sleep_until(due_at)
            await self.sync()
            due_at = max(due_at + PERIOD, trio.current_time())

    def committed_here(self, key: str) -> None:
        """Note that a consumer has committed an offset of `topic@group` to this slave.

        It does so for up to 30 s after its master has returned. If it ends then, the next consumer asks the master.
        """
        if self.hands_back and self.known_master.address not in (None, self.own_address):
            self._committed.add(key)
            self._has_committed.set()

    async def hand_back_forever(self) -> NoReturn:
        """Hand back consumer offsets committed here, without waiting for the next sync.

        The next sync hands back those that fail.
        """
        while True:
            await self._has_committed.wait()
            await trio.sleep(HAND_BACK_AFTER)
            keys, self._committed, self._has_committed = self._committed, set(), trio.Event()
            await self._hand_back(sorted(keys & self.offsets.own.keys()))

    def forget_master(self) -> None:
        """Stop copying until a registration names the master.

        Called when the broker's role changes: the master may be another broker now (SlaveSynchronize.setMasterAddr).
        """
        if self.known_master.address is not None:
            self.known_master.address = None
            self.emit("master_unknown", master_address=None)

    async def sync(self) -> None:
        """Copy topics, consumer offsets, delay offsets and groups, in this order.

        A failed copy does not stop the others (store-ha#58).
        """
        master = self.known_master.address
        if master is None or master == self.own_address or self._is_syncing:
            return
        self._is_syncing = True
        try:
            await self._copy_all(master)
            if self.hands_back:
                await self._hand_back(list(self.offsets.own))
        finally:
            self._is_syncing = False

    async def _copy_all(self, master: str) -> None:
        if self.keeps_newer:
            self._has_forgotten = True  # unless its boot time shows that it was not restarted
            self._reported_boot = None
            await self._copy(RequestCode.GET_BROKER_RUNTIME_INFO, master, self._apply_boot)
        await self._copy(RequestCode.GET_ALL_TOPIC_CONFIG, master, self._apply_topics)
        await self.topics.save_in_slices()
        await self._copy(RequestCode.GET_ALL_CONSUMER_OFFSET, master, self._apply_offsets)
        await self.offsets.save_in_slices()
        await self._copy(RequestCode.GET_ALL_DELAY_OFFSET, master, self._apply_delay_offsets)
        await self._copy(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, master, self._apply_groups)
        await self.subscriptions.save_in_slices()

    async def _copy(self, code: RequestCode, master: str, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Copy one table.

        Nothing if the master has changed since the sync began: the next sync copies all tables from the new one.
        """
        if self.known_master.address != master:
            return
        address = _vip_address(master) if code == RequestCode.GET_ALL_TOPIC_CONFIG else master
        try:
            reply = await self.client.request(address, request(code), TIMEOUT)
            if reply.code == ResponseCode.SUCCESS:
                await take(reply.body)
                self._failures.recovered(code.name)
            else:
                self._failures.add(code.name, f"{code.name} from {address}: code {reply.code}, {short(reply.remark)}")
        except RemotingError as exc:
            self._failures.add(code.name, f"{code.name}: {exc}")
        except TooManyError as exc:
            self._failures.add(code.name, f"{code.name} from {address} is not copied: {exc}")
        except (BodyError, UnicodeError) as exc:
            self._failures.add(code.name, f"{code.name} from {address} does not parse: {short(exc)}")
        except Exception as exc:  # noqa: BLE001 - a boundary: the other kinds are copied all the same
            self.errors.caught("metadata sync", exc, f"{code.name} from {address}")

    async def _apply_topics(self, body: bytes) -> None:
        if self.topics.replace_all(await _decoded(TopicConfigSerializeWrapper, body)):
            self.emit("topics_synced", topics=len(self.topics.topics), version=self.topics.data_version.counter)

    async def _apply_boot(self, body: bytes) -> None:
        boot = (await _decoded(KVTable, body)).table.get("bootTimestamp")
        self._has_forgotten = boot is None or boot != self._boot
        self._reported_boot = boot

    async def _apply_offsets(self, body: bytes) -> None:
        fresh = (await _decoded(ConsumerOffsets, body)).offset_table
        _check_range(number for queues in fresh.values() for pair in queues.items() for number in pair)
        self.offsets.check_room_for(fresh)
        reported, self._reported_kept = self._reported_kept, {}
        keys = [*fresh, *(key for key in self.offsets.own if key not in fresh)]
        for number, key in enumerate(keys):
            self._apply_offsets_of(key, fresh.get(key, {}), reported.get(key))
            if number % _MERGED_AT_ONCE == _MERGED_AT_ONCE - 1:
                await trio.lowlevel.checkpoint()
        # Not before: if this copy fails, the next one still has to keep what the restarted master forgot.
        self._boot = self._reported_boot or self._boot

    def _apply_offsets_of(self, key: str, fresh: Mapping[int, int], reported: Stay | None) -> None:
        """Merge one key at once: consumers commit offsets meanwhile."""
        table = self.offsets
        ours = table.offsets.get(key, {})
        kept: Mapping[int, int] = {}
        if self.keeps_newer or self.hands_back:
            forgotten = self.keeps_newer and self._has_forgotten
            kept = kept_offsets(ours, fresh, table.own.get(key, frozenset()), has_forgotten=forgotten)
        newer = {
            queue_id: (offset, fresh.get(queue_id, 0))
            for queue_id, offset in ours.items()
            if fresh and offset > fresh.get(queue_id, 0)
        }
        stay = {queue_id: newer.pop(queue_id) for queue_id in kept if queue_id in newer}
        if newer:
            self.emit("consumer_offsets_overwritten", key=key, queues=newer)
        if stay and stay != reported:  # once, not every 10 s
            self.emit("consumer_offsets_kept", key=key, queues=stay)
        if stay:
            self._reported_kept[key] = stay
        table.merge(key, fresh, kept)

    async def _hand_back(self, keys: Sequence[str]) -> None:
        """Commit kept offsets to the known master, as a consumer does (request 15).

        `keys` are topics and groups. Every master serves that request. Our masters reject offsets that are older than
        their own.
        """
        async with self._handing_back:
            master = self.known_master.address  # may have changed while another hand-back held the lock
            if master is not None:
                await self._commit_to(master, keys)

    async def _commit_to(self, master: str, keys: Sequence[str]) -> None:
        for key in keys:
            topic, _, group = key.partition("@")
            table, queues = self.offsets.offsets.get(key, {}), self.offsets.own.get(key, ())
            offsets = {queue_id: table[queue_id] for queue_id in sorted(queues) if queue_id in table}
            if not offsets:  # a sync has found them at the master meanwhile
                continue
            for queue_id, offset in offsets.items():
                header = UpdateConsumerOffsetRequestHeader(
                    consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset, only_forward=TRUE
                )
                try:
                    reply = await self.client.request(
                        master, request(RequestCode.UPDATE_CONSUMER_OFFSET, header), TIMEOUT
                    )
                except RemotingError as exc:
                    self._failures.add("hand back", f"offsets of {short(key)} not handed back: {exc}")
                    return
                if reply.code != ResponseCode.SUCCESS:
                    self._failures.add(
                        "hand back",
                        f"offsets of {short(key)} not handed back: code {reply.code}, {short(reply.remark)}",
                    )
                    return
            self._failures.recovered("hand back")
            self.emit("consumer_offsets_handed_back", key=key, queues=offsets)

    async def _apply_delay_offsets(self, body: bytes) -> None:
        if len(body) > _MOST_DELAY_BYTES:
            raise BodyError(f"{len(body)} bytes, at most {_MOST_DELAY_BYTES}")
        table = (await _decoded(DelayOffsets, body)).offset_table
        _check_range(number for pair in table.items() for number in pair)  # an invalid table would replace a valid file
        keep_config_file(self.delay_offset_path, body)

    async def _apply_groups(self, body: bytes) -> None:
        if self.subscriptions.replace_all(await _decoded(SubscriptionGroupWrapper, body)):
            self.emit("groups_synced", groups=len(self.subscriptions.groups))


async def _decoded(kind: type[B], body: bytes) -> B:
    """Return a body. BodyError as its `decode`, which a thread calls for a large one."""
    return kind.decode(body) if len(body) < _DECODED_AT_ONCE else await in_thread(kind.decode, body)


def _check_range(numbers: Iterable[int]) -> None:
    """Raise BodyError for a number outside Java's long.

    The journal cannot encode such a number either.
    """
    for number in numbers:
        if not -(2**63) <= number < 2**63:
            raise BodyError("a number of more than 64 bits")


def _vip_address(address: str) -> str:
    """Return the VIP address, which serves the topics.

    An invalid address is returned as it is, and fails at connect.
    """
    host, _, port = address.rpartition(":")
    is_port = port.isdecimal() and len(port) <= 5
    return f"{host}:{int(port) - VIP_PORT_DISTANCE}" if is_port else address
