"""The tables of an audit: columns, units, keys.

`rmqlab.pipeline.tables.audittablespage` writes docs/audit-tables.md from this declaration; a test holds it against the
files of an audit. Times are milliseconds of the cluster's clock. Needs no Spark.
"""

import attrs

from rmqlab.pipeline.tables.auditcolumns import (
    AT,
    BROKER,
    GROUP,
    LOG_OFFSET,
    MESSAGE,
    NODE,
    OBSERVER,
    OFFSET,
    QUEUE,
    SEQ,
    TOPIC,
    UNTIL,
)
from rmqlab.pipeline.tables.auditsourcetables import SOURCE_TABLES
from rmqlab.pipeline.tables.audittable import AuditTable, Column

_PLACE = "struct<topic:string,broker:string,queue:int,offset:bigint>"
_LOG_PLACE = "struct<node:string,at:bigint>"
_RETRY = "struct<topic:string,broker:string,queue:int,offset:bigint,times:int>"
_BROKERS_OF_SEND = Column(
    "brokers", "array<string>", "broker names of these records and of the acknowledgement; empty without one"
)
_QUEUE = (TOPIC, BROKER, QUEUE)
_OBSERVED = (SEQ, AT, OBSERVER, GROUP, *_QUEUE)
_ATTEMPT = (
    Column("operation", "string", "write, read or group_read"),
    Column("broker", "string", "broker name of a group_read; empty for others"),
    Column("target", "string", "broker name, topic@broker:queue, or consumer group of a group_read"),
)


TABLES = (
    AuditTable(
        "fates",
        "The fate of each message, over all journals and stores.",
        ("message_id",),
        (
            MESSAGE,
            Column(
                "send",
                "struct<acknowledged:boolean,is_ok:boolean,ended_at:bigint,topic:string,outcome:string,broker:string,"
                "queue:int,offset:bigint,crc:bigint,sys_flag:int,place_topic:string,place_queue:int,position:int,began_at:bigint>",
                "its last send, an acknowledged one if there is any, SEND_OK first; null if no journal has one; `position`"
                " is that in its batch, from 0",
            ),
            Column("has_failure", "boolean", "true if an attempt of it failed"),
            Column("sends", "bigint", "its sends"),
            Column(
                "acknowledgements",
                "array<struct<broker:string,outcome:string,ended_at:bigint>>",
                "its acknowledged sends",
            ),
            Column("delivered", f"array<{_PLACE}>", "queue offsets from which it was delivered, without redeliveries"),
            Column("nodes", "array<string>", "nodes whose store has it"),
            Column("places", f"array<{_PLACE}>", "queue offsets at which it is stored"),
            Column("stored_at", "bigint", "earliest store time, ms"),
            Column("deliveries", "bigint", "deliveries to all groups"),
            Column("damages", "array<string>", "damaged records of it"),
            Column("least_crc", "bigint", "lowest `contentCrc` of its records"),
            Column("greatest_crc", "bigint", "highest one: another value if the records differ"),
            Column("first_born_at", "bigint", "earliest time of its producer in its records, ms; null if not judged"),
            Column("last_born_at", "bigint", "latest one: another time if the records differ"),
            Column("has_other_host", "boolean", "true if a record's producer has an address that not all clients have"),
            Column("has_odd_header", "boolean", "true if a record has a header that no broker writes"),
            Column("header_bits", "array<struct<is_half:boolean,sys_flag:int>>", "sysFlags of its records"),
            Column("prepared", f"array<{_LOG_PLACE}>", "prepared transaction offsets of its records"),
            Column("halves", f"array<{_LOG_PLACE}>", "commit log offsets of its half messages"),
            Column("retries", f"array<{_RETRY}>", "its records in retry topics, with their reconsume times"),
            Column("retried", f"array<{_RETRY}>", "its deliveries from retry topics, with their reconsume times"),
            Column(
                "is_expired", "boolean", "true if the files of all its acknowledged records were deleted for their age"
            ),
            Column("is_stored", "boolean", "true if a store has it"),
        ),
    ),
    AuditTable(
        "presence",
        "Number of messages by outcome, stores and consumption.",
        ("outcome", "broker", "nodes", "is_consumed"),
        (
            Column("outcome", "string", "outcome of the send"),
            BROKER,
            Column("nodes", "array<string>", "nodes whose store has them"),
            Column("is_consumed", "boolean", "true if a group received them"),
            Column("messages", "bigint", "messages"),
        ),
    ),
    AuditTable(
        "absences",
        "Intervals in which a node did not serve.",
        ("node", "at"),
        (
            Column("node", "string", "node that was away"),
            Column("how", "string", "killed, stopped, crashed, paused or isolated"),
            Column("at", "bigint", "begin, ms"),
            UNTIL,
        ),
    ),
    AuditTable(
        "beliefs",
        "Intervals in which a nameserver or a client had an address in its routes.",
        ("watcher", "address", "since"),
        (
            Column("watcher", "string", "nameserver or client"),
            Column("address", "string", "broker's host:port"),
            Column("since", "bigint", "begin, ms"),
            UNTIL,
        ),
    ),
    AuditTable(
        "attempts",
        "Attempts to write and to read, by broker name, by queue and by consumer group.",
        (),
        (
            *_ATTEMPT,
            Column("began_at", "bigint", "begin, ms"),
            Column("ended_at", "bigint", "end, ms"),
            Column("is_success", "boolean", "true if it succeeded"),
        ),
    ),
    AuditTable(
        "outages",
        "Intervals without a successful attempt, from the first failed one on.",
        ("operation", "broker", "target", "began_at"),
        (
            *_ATTEMPT,
            Column("failures", "bigint", "failed attempts"),
            Column("is_open", "boolean", "true if no attempt succeeded afterwards"),
            Column("first_failed", "bigint", "begin of the first failed attempt, ms"),
            Column("last_failed", "bigint", "end of the last failed attempt, ms"),
            Column("began_at", "bigint", "end of the last success before, ms"),
            Column("ended_at", "bigint", "end of the first success afterwards, ms"),
        ),
    ),
    AuditTable(
        "lag",
        "How far a slave's log was behind its master's, once per second.",
        ("slave", "at"),
        (
            Column("slave", "string", "slave"),
            Column("at", "bigint", "time of the sample, ms"),
            Column("behind_bytes", "bigint", "bytes behind the master's log"),
            Column("master_end", "bigint", "end of the master's log, bytes"),
            Column("slave_end", "bigint", "end of the slave's log, bytes"),
            Column("master", "string", "its master at that time"),
            Column("paired_at", "bigint", "since when they had these roles, ms; 0 from the start of the run"),
            Column("paired_until", "bigint", "until when, ms; null if until the end"),
        ),
    ),
    AuditTable(
        "behind_spans",
        "Intervals in which a slave was behind its master without a break.",
        ("slave", "at"),
        (Column("slave", "string", "slave"), Column("at", "bigint", "begin, ms"), UNTIL),
    ),
    AuditTable(
        "divergences",
        "Records that differ between the log of a slave, or a former master, and its master's.",
        ("slave", "log_offset"),
        (
            Column("slave", "string", "slave or former master"),
            LOG_OFFSET,
            Column("low", "bigint", "begin of the range that both logs have, bytes"),
            Column("high", "bigint", "end of that range, bytes"),
            Column("master_message", "string", "unique id of the record in the master's log; null without one"),
            Column("slave_message", "string", "unique id of the record in the slave's log; null without one"),
        ),
    ),
    AuditTable(
        "altered_origins",
        "Messages whose records have another time or address of their producer than its send.",
        ("message_id",),
        (
            MESSAGE,
            Column("stored_at", "bigint", "earliest store time of such a record, ms"),
            Column("places", "array<string>", "such records: node, commit log offset, address and time, in words"),
            _BROKERS_OF_SEND,
        ),
    ),
    AuditTable(
        "altered_headers",
        "Messages whose records have a header that contradicts journals or other records.",
        ("message_id",),
        (
            MESSAGE,
            Column("stored_at", "bigint", "earliest store time of such a record, ms"),
            Column("places", "array<string>", "such records: node, commit log offset and contradictions, in words"),
            _BROKERS_OF_SEND,
        ),
    ),
    AuditTable(
        "early_deliveries",
        "Delayed messages that were stored in their own topic before they were due.",
        ("message_id",),
        (
            MESSAGE,
            Column("stored_at", "bigint", "earliest such store time, ms"),
            Column("places", "array<string>", "such records: node, commit log offset and time, in words"),
            Column("brokers", "array<string>", "broker names of these records"),
        ),
    ),
    AuditTable(
        "uncommitted_messages",
        "Half messages that their producer did not commit, and that are stored in their own topic.",
        ("message_id",),
        (
            MESSAGE,
            Column("stored_at", "bigint", "earliest store time of such a record, ms"),
            Column("places", "array<string>", "such records: node, commit log offset and state, in words"),
            Column("brokers", "array<string>", "broker names of these records"),
        ),
    ),
    AuditTable(
        "overdue_messages",
        "Delayed and half messages that a master holds back beyond their time.",
        ("message_id",),
        (
            MESSAGE,
            Column("stored_at", "bigint", "earliest store time of such a record, ms"),
            Column("places", "array<string>", "such records: node, commit log offset and reason, in words"),
            Column("brokers", "array<string>", "broker names of these records"),
        ),
    ),
    AuditTable(
        "inversions",
        "Messages stored behind one that was sent only after they were acknowledged.",
        ("node", "message_id"),
        (
            MESSAGE,
            BROKER,
            TOPIC,
            QUEUE,
            OFFSET,
            Column("ended_at", "bigint", "end of its send, ms"),
            Column("ahead", "struct<began_at:bigint,message_id:string,offset:bigint>", "the message before it"),
            NODE,
            Column("brokers", "array<string>", "broker names of all inversions of the message"),
        ),
    ),
    AuditTable(
        "late_deliveries",
        "First deliveries of messages after a later one of their queue.",
        ("group", "topic", "broker", "queue", "offset"),
        (
            *_OBSERVED,
            OFFSET,
            MESSAGE,
            Column("farthest", "bigint", "highest queue offset before"),
        ),
    ),
    AuditTable(
        "repeats",
        "Deliveries of a message to a group beyond the first, with their causes.",
        ("seq",),
        (
            *_OBSERVED,
            OFFSET,
            MESSAGE,
            Column("before_node", "string", "consumer of the delivery before, from the same place"),
            Column("cause", "string", "redelivery, client_retry, offset_rollback, rebalance or unexplained"),
            Column("is_entry_again", "boolean", "true if the journal has the same entry twice"),
        ),
    ),
    AuditTable(
        "offset_moves",
        "Consumer offsets that went back.",
        ("seq", "topic", "broker", "queue"),
        (
            *_OBSERVED,
            Column("before", "bigint", "queue offset before"),
            Column("after", "bigint", "queue offset afterwards"),
            Column("why", "string", "what moved it"),
        ),
    ),
    AuditTable(
        "offset_floors",
        "Offsets that a broker's consumerOffset.json must have at least, and what it has.",
        ("node", "group", "topic", "queue"),
        (
            Column("node", "string", "broker"),
            GROUP,
            *_QUEUE,
            Column("floor", "bigint", "lowest queue offset that the file can have"),
            Column("stored", "bigint", "queue offset in the file, 0 without an entry"),
        ),
    ),
    AuditTable(
        "unstored",
        "Messages that were delivered and are in no store.",
        ("message_id",),
        (
            MESSAGE,
            Column("at", "bigint", "first delivery, ms"),
            Column("queue", "string", "topic@broker:queue"),
            BROKER,
            OFFSET,
            OBSERVER,
            Column("brokers", "array<string>", "brokers that may have stored it; empty if any may"),
        ),
    ),
    AuditTable(
        "dangling_entries",
        "Entries of consume queues without their record, or with a wrong tags code.",
        ("node", "topic", "queue", "offset"),
        (
            NODE,
            BROKER,
            TOPIC,
            QUEUE,
            OFFSET,
            LOG_OFFSET,
            attrs.evolve(MESSAGE, text="record there; null without one"),
            Column("tags_code", "bigint", "tags code of the record there; null for a delayed message"),
            Column("wrong_code", "bigint", "the entry's tags code, if all else is right; null otherwise"),
        ),
    ),
    AuditTable(
        "unqueued_records",
        "Records that no entry of a consume queue points at.",
        ("node", "log_offset"),
        (NODE, BROKER, TOPIC, QUEUE, OFFSET, LOG_OFFSET, MESSAGE),
    ),
    AuditTable(
        "unindexed_messages",
        "Messages whose keys are not in a node's index files.",
        ("node", "log_offset"),
        (NODE, LOG_OFFSET, MESSAGE, Column("stored_at", "bigint", "store time, ms")),
    ),
    AuditTable(
        "clock_bounds",
        "For two nodes, the largest time by which events show one clock behind the other.",
        ("behind", "ahead"),
        (
            Column("behind", "string", "node whose clock is behind; empty for the supervisor"),
            Column("ahead", "string", "the other node"),
            Column("millis", "bigint", "difference, ms; negative if nothing contradicts"),
            Column("worst", "struct<message_id:string,how:string>", "the message and the events that show it"),
        ),
    ),
    AuditTable(
        "misdated_records",
        "Records with other store times than those around them, if store times contradict journals.",
        ("node", "log_offset"),
        (
            NODE,
            BROKER,
            TOPIC,
            QUEUE,
            OFFSET,
            LOG_OFFSET,
            MESSAGE,
            Column("stored_at", "bigint", "store time, ms"),
            Column("before", "bigint", "store time of the record ahead of it, ms"),
            Column("after", "bigint", "store time of the record behind it, ms"),
        ),
    ),
    AuditTable(
        "send_bins",
        "Ended sends over time, for plots.",
        ("at", "outcome"),
        (
            Column("at", "bigint", "begin of the bin, ms"),
            Column("outcome", "string", "outcome"),
            Column("sends", "bigint", "sends"),
            Column("latency", "array<bigint>", "median, 99th percentile and maximum of their durations, ms"),
        ),
    ),
    AuditTable(
        "delivery_bins",
        "Deliveries over time, for plots.",
        ("at", "group", "broker_id"),
        (
            Column("at", "bigint", "begin of the bin, ms"),
            GROUP,
            Column("broker_id", "int", "broker id they came from; 0 is a master"),
            Column("deliveries", "bigint", "deliveries"),
        ),
    ),
    AuditTable(
        "offset_points",
        "Sum of a group's committed offsets over time, for plots.",
        ("at", "group"),
        (
            Column("at", "bigint", "time of the point, ms"),
            GROUP,
            Column("offset", "bigint", "sum of its queue offsets"),
        ),
    ),
    *SOURCE_TABLES,
)
