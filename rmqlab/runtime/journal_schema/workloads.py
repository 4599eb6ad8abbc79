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
        "A producer has ended. Each outcome's number of sends has the outcome's name.",
        {"sent": count("sends")},
        is_open=True,
    ),
    EventType("consumed", "workload", "A consumer has ended.", {"delivered": count("deliveries")}),
    EventType(
        "transaction_asked",
        "workload",
        "A broker asked what became of a half message.",
        {"message_id": MESSAGE_ID, "topic": TOPIC},
    ),
    EventType(
        "rebalanced",
        "workload",
        "A consumer's share of a topic's queues changed.",
        {
            "topic": TOPIC,
            "added": listing("queues"),
            "removed": listing("queues"),
            "held": listing("all queues it has now"),
        },
    ),
    EventType(
        "route_believed",
        "workload",
        "A client's route of a topic changed.",
        {"topic": TOPIC, "brokers": mapping("addresses by broker name, then by broker id")},
    ),
    EventType(
        "pulling_from",
        "workload",
        "A consumer asks another broker than before for a queue's messages.",
        {"queue": QUEUE, "broker_id": BROKER_ID, "address": ADDRESS},
    ),
    EventType(
        "pull_failed",
        "workload",
        "A pull brought no answer, or a refusal.",
        {"queue": QUEUE, "address": ADDRESS, "error": ERROR, "took": millis("for this pull"), "held": HELD},
    ),
    EventType(
        "pull_resumed",
        "workload",
        "A pull was answered: the first of a queue that a consumer took over (since version 2), or the first after failures.",
        {
            "queue": QUEUE,
            "broker_id": BROKER_ID,
            "address": ADDRESS,
            "status": text("FOUND, NO_NEW_MSG, NO_MATCHED_MSG or OFFSET_ILLEGAL"),
            "took": millis("for this pull"),
            "held": HELD,
            "stored_at": millis("when the first message in the answer was stored; None without messages"),
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
        "A broker has not what was asked for, and offers another offset.",
        {"queue": QUEUE, "asked": queue_offset("asked for"), "offered": queue_offset("offered")},
    ),
    EventType(
        "send_back_failed",
        "workload",
        "A message that was not consumed could not be sent back; it is consumed again here.",
        {"queue": QUEUE, "message_id": MESSAGE_ID, "error": ERROR},
    ),
)
