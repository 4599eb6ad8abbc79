"""Other events of workloads: routes, pulls, commits that failed, rebalancing."""

from rmqlab.runtime.journal_schema.fields import (
    ADDRESS,
    BROKER,
    BROKER_ID,
    ERROR,
    HELD,
    MESSAGE_ID,
    QUEUE,
    TOPIC,
    EventType,
    count,
    listing,
    mapping,
    millis,
    queue_offset,
    text,
)

WORKLOADS = (
    EventType(
        "produced",
        "workload",
        "A producer ended. A field for each outcome counts the sends with that outcome.",
        {"sent": count("sends")},
        is_open=True,
    ),
    EventType("consumed", "workload", "A consumer ended.", {"delivered": count("deliveries")}),
    EventType(
        "transaction_asked",
        "workload",
        "A broker checked the transaction state of a half message with this producer.",
        {"message_id": MESSAGE_ID, "topic": TOPIC},
    ),
    EventType(
        "rebalanced",
        "workload",
        "The queues of a topic that are assigned to a consumer changed.",
        {
            "topic": TOPIC,
            "added": listing("queues"),
            "removed": listing("queues"),
            "held": listing("all assigned queues"),
        },
    ),
    EventType(
        "route_believed",
        "workload",
        "A client's route of a topic changed.",
        {"topic": TOPIC, "brokers": mapping("addresses by broker name, then by broker id")},
    ),
    EventType(
        "route_missing",
        "workload",
        "A consumer has started without a route of its topic, and waits for one.",
        {"topic": TOPIC},
    ),
    EventType(
        "pulling_from",
        "workload",
        "A consumer pulls a queue from another broker than before.",
        {"queue": QUEUE, "broker_id": BROKER_ID, "address": ADDRESS},
    ),
    EventType(
        "pull_failed",
        "workload",
        "A pull failed: no response, or an error.",
        {"queue": QUEUE, "address": ADDRESS, "error": ERROR, "took": millis("duration of the pull"), "held": HELD},
    ),
    EventType(
        "pull_resumed",
        "workload",
        "A pull succeeded: the first after failures, or the first of a newly assigned queue (since version 2).",
        {
            "queue": QUEUE,
            "broker_id": BROKER_ID,
            "address": ADDRESS,
            "status": text("FOUND, NO_NEW_MSG, NO_MATCHED_MSG or OFFSET_ILLEGAL"),
            "took": millis("duration of the pull"),
            "held": HELD,
            "stored_at": millis("when the first message of the response was stored; None without messages"),
        },
    ),
    EventType(
        "committing_to",
        "workload",
        "A consumer commits to another broker than before.",
        {"broker_name": BROKER, "broker_id": BROKER_ID, "address": ADDRESS},
    ),
    EventType("commit_failed", "workload", "A commit of offsets failed.", {"broker_name": BROKER, "error": ERROR}),
    EventType(
        "offset_illegal",
        "workload",
        "A pull's offset is outside of the queue; the broker suggests another.",
        {"queue": QUEUE, "asked": queue_offset("requested"), "offered": queue_offset("suggested")},
    ),
    EventType(
        "send_back_failed",
        "workload",
        "A failed message could not be sent back to the broker; this consumer consumes it again.",
        {"queue": QUEUE, "message_id": MESSAGE_ID, "error": ERROR},
    ),
)
