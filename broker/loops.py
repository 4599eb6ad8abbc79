"""The background loops of a broker.

The calls of `keep` in `run_broker` are the list.

Periods are RocketMQ's, in seconds of the process's clock.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import trio

from rmqlab.broker.acl.control import POLL_PERIOD, AccessControl
from rmqlab.broker.deferred.transactions import TransactionCheck
from rmqlab.broker.deleted_queues import delete_queues_forever
from rmqlab.broker.failure_log import FailureLog
from rmqlab.broker.flushloops import flush_entries_forever, flush_forever, flush_queues_forever
from rmqlab.broker.ha.intake import dispatch_forever, warm_forever
from rmqlab.broker.handlers.query import release_waiting_queries
from rmqlab.broker.state import Broker
from rmqlab.broker.tasks import BackgroundTasks
from rmqlab.broker.waits.held_pulls import SWEEP_PERIOD
from rmqlab.runtime.net.alignedtimer import AlignedTimer
from rmqlab.runtime.net.server import Server
from rmqlab.runtime.net.worker import calls_in_thread
from rmqlab.runtime.node.control import ControlLink
from rmqlab.store.files.configfile import keep_unsaved_files

if TYPE_CHECKING:  # few brokers are members of a DLedger group
    from rmqlab.broker.dledger.membership import GroupMember
    from rmqlab.dledger.entrystore import EntryStore

log = logging.getLogger(__name__)

FIRST_SAVE = 10.0
CLIENT_SCAN_PERIOD = 10.0
SAVE_FILTERS_PERIOD = 10.0
STATS_PERIOD = 10.0
CLEAN_FIRST_AFTER = 60.0
DISK_FIRST_AFTER = 1.0
DISK_PERIOD = 10.0
SAMPLE_PERIOD = 1.0
TRUNCATION_PERIOD = 5.0
WAIT_SCAN_PERIOD = 0.5
"""Seconds between two checks for overdue sends: RocketMQ reports a time-out of 3 s after 3 to 4 s (store-ha#51)."""
ENTRIES_CHECKPOINT_PERIOD = 3.0


async def run_broker(
    broker: Broker,
    servers: list[Server[Broker]],
    link: ControlLink,
    tasks: BackgroundTasks,
    group: "GroupMember | None" = None,
) -> NoReturn:
    """Start all loops, report readiness, and sleep until cancelled.

    A loop that fails is logged, counted and run again after a pause (docs/architecture.md, Boundaries).
    """
    keep, timer = tasks.keep_running, AlignedTimer()
    for server in servers:
        keep("idle connections", server.close_idle_forever)
    if group is None:
        keep("registration", broker.registration.register_forever)
        keep("HA master", broker.ha_master.run_forever)
        keep("HA slave", broker.ha_slave.run_forever)
        keep("log flush", flush_forever, broker)
    else:
        keep("registration", broker.registration.register_forever, group.roles.is_known)
        keep("group member", group.node.work_forever)
        keep("roles", group.follow_roles, broker)
        keep("log flush", flush_entries_forever, broker, group.node.note_synced)
        keep("log checkpoint", save_entries_checkpoint_forever, group.node.log.entries)
    keep("queue flush", flush_queues_forever, broker)
    keep("held pulls", sweep_held_pulls_forever, broker, timer)
    keep("waiting sends", _expire_waits_forever, broker)
    keep("silent clients", _every, timer, CLIENT_SCAN_PERIOD, broker.drop_silent_clients)
    keep("statistics", _sample_stats_forever, broker, timer)
    keep("consumer offset file", _save_offsets_forever, broker, timer)
    keep("filter file", _save_filters_forever, broker, timer)
    keep("disk check", _check_disk_forever, broker, timer)
    keep("expired files", _clean_forever, broker)
    keep("deleted queues", delete_queues_forever, broker.store.queues.deleted, timer)
    keep("log samples", sample_log_forever, broker, timer)
    if broker.access is not None:
        keep("ACL files", _poll_acl_forever, broker.access, timer)
    keep("dispatch", dispatch_forever, broker.store, broker.growth, lambda: release_waiting_queries(broker))
    keep("services of the role", _run_services_forever, broker, timer)
    await broker.registration.all_registered.wait()
    link.ready(
        address=broker.config.address,
        ha_address=broker.registration.ha_address,
        broker_name=broker.config.broker_name,
        broker_id=broker.config.broker_id,
        nameservers=sorted(broker.registration.registered),
    )
    try:
        await trio.sleep_forever()
    finally:
        await broker.growth.group_flush.end()
    raise AssertionError("the loops never end")


async def _run_services_forever(broker: Broker, timer: AlignedTimer) -> NoReturn:
    """Run the loops of the current role, until the role changes."""
    while True:
        broker.role_taken = trio.Event()
        async with trio.open_nursery() as nursery:
            keep = BackgroundTasks(nursery, broker.errors).keep_running
            if broker.is_slave:
                keep("read-ahead", warm_forever, broker.store, broker.growth)
                keep("metadata sync", broker.sync.sync_forever)
                keep("offset hand-back", broker.sync.hand_back_forever)
            else:  # only a master makes messages of its own (store-ha#76)
                keep("delayed delivery", broker.delay.deliver_forever)
                keep("delay offset file", _save_delay_offsets_forever, broker, timer)
                keep("transaction check", TransactionCheck(broker).check_forever)
            await broker.role_taken.wait()
            nursery.cancel_scope.cancel()


async def _every(timer: AlignedTimer, period: float, fn: Callable[[], None]) -> NoReturn:
    while True:
        await timer.sleep(period)
        fn()


async def _poll_acl_forever(access: AccessControl, timer: AlignedTimer) -> NoReturn:
    while True:
        await timer.sleep(POLL_PERIOD)
        await access.poll()


async def sweep_held_pulls_forever(broker: Broker, timer: AlignedTimer) -> NoReturn:
    """Sweep every 5 s, or after each short polling time without long polling.

    Source: PullRequestHoldService.run. A short polling time of 0 counts as 1 ms.
    """
    while True:
        config = broker.config
        await timer.sleep(
            SWEEP_PERIOD if config.long_polling_enable else max(config.short_polling_time_mills, 1) / 1000
        )
        broker.hold.sweep(broker.store.max_queue_offset)


async def save_entries_checkpoint_forever(entries: "EntryStore") -> NoReturn:
    """Write the committed index every 3 s (dledger#51).

    Not in a thread: a lower index must not be replaced by an older one. Not during a truncation, which writes the file
    in a thread.
    """
    failures = FailureLog(log)
    while True:
        await trio.sleep(ENTRIES_CHECKPOINT_PERIOD)
        if entries.cut.is_pending:
            continue
        try:
            entries.save_checkpoint()
        except OSError as exc:
            failures.add("checkpoint", f"cannot write {entries.directory}/checkpoint: {exc.strerror or exc}; retrying")
        else:
            failures.recovered("checkpoint")


async def _sample_stats_forever(broker: Broker, timer: AlignedTimer) -> NoReturn:
    """Sample the counters every 10 s; a slave counts dispatched records as puts."""
    store, stats = broker.store, broker.stats
    entered, dispatched = store.dispatcher.entries.count, store.dispatched_offset
    while True:
        await timer.sleep(STATS_PERIOD)
        if broker.is_slave:
            stats.count_replicated(store.dispatcher.entries.count - entered, store.dispatched_offset - dispatched)
            entered, dispatched = store.dispatcher.entries.count, store.dispatched_offset
        stats.sample(broker.now_millis())


async def sample_log_forever(broker: Broker, timer: AlignedTimer) -> NoReturn:
    """Emit the log's end, and the bytes of connections, each second if it has changed.

    All brokers of a cluster sample at the same instants, because their clocks agree: so samples can be compared. While
    the log does not grow, an idle broker is woken only to notice that it was truncated.
    """
    sampled = None
    while True:
        await trio.sleep_until((trio.current_time() // SAMPLE_PERIOD + 1) * SAMPLE_PERIOD)
        end = broker.store.max_commit_log_offset
        if end != sampled:
            sampled = end
            sample_log(broker)
        with trio.move_on_at(timer.next(TRUNCATION_PERIOD)):
            await broker.growth.wait_grown()


def sample_log(broker: Broker) -> None:
    """Emit the log's end, and the bytes of connections so far."""
    broker.emit(
        "log_sampled",
        max_offset=broker.store.max_commit_log_offset,
        acknowledged=broker.ha_master.push_to_slave_max_offset,
        replicated=broker.replication.sent,
        exchanged=broker.traffic.sent + broker.traffic.received,
    )


async def _expire_waits_forever(broker: Broker) -> NoReturn:
    """Release late sends.

    While none waits, it sleeps until the log grows: an idle broker is not woken for that. After that it sleeps at least
    once, because the log of a slave grows at every turn of the event loop, and no send ever waits there.
    """
    while True:
        await broker.growth.wait_grown()
        is_first = True
        while is_first or len(broker.slave_waits) or len(broker.flush_waits):
            is_first = False
            await trio.sleep(WAIT_SCAN_PERIOD)
            now = broker.now()
            broker.slave_waits.expire(now, broker.ha_master)
            broker.flush_waits.expire(now)


async def _save_offsets_forever(broker: Broker, timer: AlignedTimer) -> NoReturn:
    """Save consumerOffset.json every 5 s, first after 10 s (store-ha#63).

    Files that a full disk refused are saved again.
    """
    await broker.topics.file.prepare(broker.topics.topics)
    await broker.subscriptions.file.prepare(broker.subscriptions.groups)
    await trio.sleep(FIRST_SAVE)
    while True:
        keep_unsaved_files()
        await broker.topics.save_in_slices()
        await broker.subscriptions.save_in_slices()
        await broker.offsets.save_in_slices()
        await timer.sleep(broker.config.flush_consumer_offset_interval / 1000)


async def _save_filters_forever(broker: Broker, timer: AlignedTimer) -> NoReturn:
    while True:
        await timer.sleep(SAVE_FILTERS_PERIOD)
        await broker.filters.save_in_slices()


async def _save_delay_offsets_forever(broker: Broker, timer: AlignedTimer) -> NoReturn:
    """Write delayOffset.json every 10 s (store-and-ha section 5.4)."""
    await trio.sleep(FIRST_SAVE)
    while True:
        broker.delay.save()
        await timer.sleep(broker.config.flush_delay_offset_interval / 1000)


async def _check_disk_forever(broker: Broker, timer: AlignedTimer) -> NoReturn:
    """Check every DISK_PERIOD whether the disk is too full (store-ha#31).

    The first check is DISK_FIRST_AFTER after the start, in seconds.
    """
    await trio.sleep(DISK_FIRST_AFTER)
    while True:
        broker.store.check_disk()
        await timer.sleep(DISK_PERIOD)


async def _clean_forever(broker: Broker) -> NoReturn:
    """Delete expired files at the configured hour or when the disk is full.

    Source: store-ha#30.
    """
    await trio.sleep(CLEAN_FIRST_AFTER)
    while True:
        hour = time.localtime(broker.now_millis() // 1000).tm_hour
        for name in await calls_in_thread(broker.store.deletion_of_expired(hour)):
            log.info("deleted %s", name)
            broker.emit("file_deleted", file=name)
        await trio.sleep(broker.store.config.clean_resource_interval / 1000)
