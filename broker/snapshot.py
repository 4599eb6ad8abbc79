"""What a broker says of itself when the supervisor asks: facts of this moment, nothing computed twice."""

from collections.abc import Mapping

from broker.state import Broker
from remoting import names


def snapshot(broker: Broker) -> dict[str, object]:
    """Give role, log positions, replication, clients. Plain values, for msgpack and JSON."""
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
            "dispatched": store.dispatched_offset,
        },
        "ha": broker.ha_slave.snapshot() if config.is_slave else broker.ha_master.snapshot(),
        "nameservers": sorted(broker.registration.registered),
        "queues": sum(1 for _ in store.topics_queues()),
        "topics": len(broker.topics.topics),
        "consumers": {name: len(group.members) for name, group in broker.consumers.groups.items()},
        "producers": {name: len(members) for name, members in broker.producers.groups.items()},
        "consumer_offsets": broker.offsets.offsets,
        "delayed": delayed(broker),
        "half_messages": half_messages(broker),
        "held_pulls": len(broker.hold),
        "waiting_sends": len(broker.slave_waits) + len(broker.flush_waits),
        "metadata_master": broker.sync.master_address,
        "unserved": _by_peer_and_code(broker.unserved),
        "served_of_5x": _by_peer_and_code(broker.served_of_5x),
    }


def _by_peer_and_code(counts: Mapping[tuple[str, int], int]) -> dict[str, int]:
    return {f"{peer} {code}": count for (peer, code), count in counts.items()}


def delayed(broker: Broker) -> dict[str, dict[str, int]] | None:
    """How far each level is delivered, and where its queue ends, by the level's number; levels never used are left out.

    None on a slave, which delivers nothing.
    """
    if broker.is_slave:
        return None
    levels = {}
    for level in range(1, len(broker.store.config.delay_millis) + 1):
        end = broker.store.max_queue_offset(names.SCHEDULE_TOPIC, level - 1)
        if end:
            levels[str(level)] = {"delivered": broker.delay.offsets.get(level, 0), "end": end}
    return levels


def half_messages(broker: Broker) -> dict[str, int] | None:
    """How far checks have come in the half and op queues, and how many half messages nobody has resolved.

    None on a slave, which asks nobody.
    """
    if broker.is_slave:
        return None
    done, end = _progress(broker, names.HALF_TOPIC)
    op_done, op_end = _progress(broker, names.OP_HALF_TOPIC)
    backlog = max((end - done) - (op_end - op_done), 0)  # each op record ahead resolves one half message ahead
    return {"done": done, "end": end, "op_done": op_done, "op_end": op_end, "backlog": backlog}


def _progress(broker: Broker, topic: str) -> tuple[int, int]:
    return broker.offsets.query(names.TRANSACTION_GROUP, topic, 0) or 0, broker.store.max_queue_offset(topic, 0)
