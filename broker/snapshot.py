"""What a broker says of itself when the supervisor asks: facts of this moment, nothing computed twice."""

from broker.state import Broker


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
        "held_pulls": len(broker.hold),
        "waiting_sends": len(broker.slave_waits) + len(broker.flush_waits),
        "metadata_master": broker.sync.master_address,
        "unserved": {f"{peer} {code}": count for (peer, code), count in broker.unserved.items()},
    }
