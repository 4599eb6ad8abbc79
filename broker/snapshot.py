"""The snapshot of a broker for the supervisor.

The supervisor asks up to 20 times a second while it waits for a condition, so the cost is limited: of tables that
clients can grow, the snapshot has the oldest entries and the number of all. They come last, because a snapshot that is
too large for its message loses its last members.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TypeVar

from rmqlab.broker.state import Broker
from rmqlab.remoting import names
from rmqlab.remoting.bodies.topic import DataVersion
from rmqlab.runtime.bounds import LEFT_OUT

K = TypeVar("K")
V = TypeVar("V")

MOST_ENTRIES = 500
"""Entries of one table in a snapshot."""
MOST_OFFSETS = 20_000
"""Committed offsets in a snapshot, but for those of the last topic and group."""


def snapshot(broker: Broker) -> dict[str, object]:
    """Return the broker's state as plain values for msgpack and JSON.

    Role, log positions, replication, clients.
    """
    store = broker.store
    config = broker.config
    return {
        "role": config.broker_role,
        "broker_name": config.broker_name,
        "broker_id": config.broker_id,
        "address": config.address,
        "ha_address": broker.registration.ha_address,
        "commit_log": {
            "min": store.min_commit_log_offset,
            "max": store.max_commit_log_offset,
            "flushed": store.flushed_offset,
            "flush_error": store.flush_error,
            "dispatched": store.dispatched_offset,
        },
        "ha": broker.ha_slave.snapshot() if config.is_slave else broker.ha_master.snapshot(),
        "dledger": store.log.group_facts(),
        "nameservers": sorted(broker.registration.registered),
        "queues": len(store.queues.table),
        "topics": len(broker.topics.topics),
        "metadata_versions": {
            "topics": _version(broker.topics.data_version),
            "groups": _version(broker.subscriptions.data_version),
        },
        "consumer_groups": len(broker.consumers.groups),
        "producer_groups": len(broker.producers.groups),
        "consumer_offset_keys": len(broker.offsets.offsets),
        "delayed": delayed(broker),
        "half_messages": half_messages(broker),
        "held_pulls": len(broker.hold),
        "waiting_sends": len(broker.slave_waits) + len(broker.flush_waits),
        "metadata_master": broker.sync.known_master.address,
        "unserved": _by_peer_and_code(broker.unserved),
        "served_of_5x": _by_peer_and_code(broker.served_of_5x),
        "topic_names": [*islice(reversed(broker.topics.topics), MOST_ENTRIES)],  # the newest ones
        "consumers": _oldest(broker.consumers.groups, lambda group: len(group.members)),
        "producers": _oldest(broker.producers.groups, len),
        "consumer_offsets": _oldest_offsets(broker.offsets.offsets),
    }


def _oldest(table: Mapping[K, V], shown: Callable[[V], object]) -> dict[K | str, object]:
    """Return the oldest entries of a table, and the number of those left out.

    `shown` converts each value.
    """
    kept: dict[K | str, object] = {key: shown(value) for key, value in islice(table.items(), MOST_ENTRIES)}
    if len(table) > MOST_ENTRIES:
        kept[LEFT_OUT] = len(table) - MOST_ENTRIES
    return kept


def _oldest_offsets(table: Mapping[str, Mapping[int, int]]) -> dict[str, object]:
    """Return the oldest committed offsets by topic and group.

    Also the number of topics and groups left out.
    """
    kept: dict[str, object] = {}
    shown = 0
    for key, queues in islice(table.items(), MOST_ENTRIES):
        if shown >= MOST_OFFSETS:
            break
        kept[key] = _oldest(queues, int)
        shown += min(len(queues), MOST_ENTRIES)
    if len(table) > len(kept):
        kept[LEFT_OUT] = len(table) - len(kept)
    return kept


def _version(version: DataVersion) -> list[int]:
    return [version.timestamp, version.counter]


def _by_peer_and_code(counts: Mapping[tuple[str, int], int]) -> dict[str, int]:
    return {f"{peer} {code}": count for (peer, code), count in counts.items()}


def delayed(broker: Broker) -> dict[str, dict[str, int]] | None:
    """Return the delivered offset and the end of each level's queue, by level.

    Unused levels are left out.

    None on a slave, which does not deliver delayed messages.
    """
    if broker.is_slave:
        return None
    levels = {}
    for level in range(1, len(broker.store.dispatcher.entries.delay_millis) + 1):
        end = broker.store.max_queue_offset(names.SCHEDULE_TOPIC, level - 1)
        if end:
            levels[str(level)] = {"delivered": broker.delay.offsets.get(level, 0), "end": end}
    return levels


def half_messages(broker: Broker) -> dict[str, int] | None:
    """Return the progress of checks and the number of unresolved half messages.

    Progress is that in the half queue and in the op queue. None on a slave, which makes no checks.
    """
    if broker.is_slave:
        return None
    done, end = _progress(broker, names.HALF_TOPIC)
    op_done, op_end = _progress(broker, names.OP_HALF_TOPIC)
    backlog = max((end - done) - (op_end - op_done), 0)  # each op record ahead resolves one half message ahead
    return {"done": done, "end": end, "op_done": op_done, "op_end": op_end, "backlog": backlog}


def _progress(broker: Broker, topic: str) -> tuple[int, int]:
    return broker.offsets.query(names.TRANSACTION_GROUP, topic, 0) or 0, broker.store.max_queue_offset(topic, 0)
