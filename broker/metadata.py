"""A slave copies its master's metadata: topics, consumer offsets, delay offsets, groups.

Source: store-and-ha section 5.3; class SlaveSynchronize. Nothing ever goes the other way, and consumer offsets
are taken as they come, older or newer: that is 4.9, and the reason why progress made on a slave is lost.
"""

import logging
import pathlib
from collections.abc import Callable
from typing import NoReturn

import attrs
import trio

from broker.offsets import ConsumerOffsetTable
from broker.subscriptions import SubscriptionGroupTable
from broker.topics import TopicTable
from remoting.bodies.group import SubscriptionGroupWrapper
from remoting.bodies.offset import ConsumerOffsets
from remoting.bodies.topic import TopicConfigSerializeWrapper
from remoting.body import BodyError
from remoting.channel import RemotingError
from remoting.client import RemotingClient
from remoting.codes import RequestCode, ResponseCode
from remoting.command import request
from store.configfile import keep_config_file

log = logging.getLogger(__name__)

FIRST_AFTER = 3.0
PERIOD = 10.0
TIMEOUT = 3.0
VIP_PORT_DISTANCE = 2


@attrs.define(eq=False)
class MetadataSync:
    """What a slave takes from its master, and from where."""

    own_address: str
    topics: TopicTable
    offsets: ConsumerOffsetTable
    subscriptions: SubscriptionGroupTable
    delay_offset_path: pathlib.Path
    client: RemotingClient
    emit: Callable[..., None]
    master_address: str | None = None
    """None while the nameservers know of no master: then nothing is copied, and nothing changes (store-ha#61)."""

    async def sync_forever(self) -> NoReturn:
        """Copy after 3 s, then every 10 s."""
        due_at = trio.current_time() + FIRST_AFTER
        while True:
            await trio.sleep_until(due_at)
            await self.sync()
            due_at = max(due_at + PERIOD, trio.current_time())

    async def sync(self) -> None:
        """Copy all four kinds in their order; one that fails does not stop the others (store-ha#58)."""
        master = self.master_address
        if master is None or master == self.own_address:
            return
        await self._copy(RequestCode.GET_ALL_TOPIC_CONFIG, _vip_address(master), self._take_topics)
        await self._copy(RequestCode.GET_ALL_CONSUMER_OFFSET, master, self._take_offsets)
        await self._copy(RequestCode.GET_ALL_DELAY_OFFSET, master, self._take_delay_offsets)
        await self._copy(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, master, self._take_groups)

    async def _copy(self, code: RequestCode, address: str, take: Callable[[bytes], None]) -> None:
        try:
            reply = await self.client.request(address, request(code), TIMEOUT)
            if reply.code == ResponseCode.SUCCESS:
                take(reply.body)
            else:
                log.warning("%s from %s: code %d, %s", code.name, address, reply.code, reply.remark)
        except RemotingError as exc:
            log.warning("%s: %s", code.name, exc)
        except (BodyError, UnicodeDecodeError) as exc:
            log.warning("%s from %s does not parse: %s", code.name, address, exc)

    def _take_topics(self, body: bytes) -> None:
        if self.topics.replace_all(TopicConfigSerializeWrapper.decode(body)):
            self.emit("topics_synced", topics=len(self.topics.topics), version=self.topics.data_version.counter)

    def _take_offsets(self, body: bytes) -> None:
        fresh = ConsumerOffsets.decode(body)
        for key, queues in fresh.offset_table.items():
            ours = self.offsets.offsets.get(key, {})
            moved_back = {
                queue_id: (ours[queue_id], queues.get(queue_id, 0))
                for queue_id in ours
                if ours[queue_id] > queues.get(queue_id, 0)
            }
            if moved_back:
                self.emit("consumer_offsets_overwritten", key=key, queues=moved_back)
        self.offsets.merge(fresh)

    def _take_delay_offsets(self, body: bytes) -> None:
        keep_config_file(self.delay_offset_path, body)

    def _take_groups(self, body: bytes) -> None:
        if self.subscriptions.replace_all(SubscriptionGroupWrapper.decode(body)):
            self.emit("groups_synced", groups=len(self.subscriptions.groups))


def _vip_address(address: str) -> str:
    """Where topics come from, and they alone. What is no address stays as it is: connecting to it will say so."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - VIP_PORT_DISTANCE}" if port.isdecimal() else address
