"""Metrics of stores: compared logs; queues, index and tables against the log."""

from typing import Final

from rmqlab.verdict.catalogue.shared import (
    BROKER_JOURNALS,
    BYTES,
    CONSUMER_JOURNALS,
    ENTRIES,
    GROUPS,
    MESSAGES,
    RECORDS,
    REQUESTS,
    SECONDS,
    TOPICS,
)
from rmqlab.verdict.metrics import Metric

OFFSET_FILES: Final = (
    Metric(
        name="offset_file_behind",
        target="NODE",
        unit=MESSAGES,
        text="largest distance of a saved offset below the last commit",
        definition="consumerOffset.json of the node, against the last commit to it that it had time to save (every"
        " 5 s, first 10 s after a start, and at a stop in good order).",
        blind_to="offsets that no workload of the journal committed, those sent during a pull of the queue that failed,"
        " and those that a slave got from its master",
        unknown_when="the file cannot be read, or no commit must be in it",
        rests_on=CONSUMER_JOURNALS,
        is_floor=True,
        excused_by=REQUESTS,
    ),
)

REPLICATION: Final = (
    Metric(
        name="replication_lag",
        target="SLAVE",
        unit=BYTES,
        text="largest distance behind its master's log",
        definition="The largest difference of both logs' ends in the samples of one instant (one a second).",
        blind_to="changes between two samples",
        unknown_when="the master or the slave recorded no sample",
        rests_on=BROKER_JOURNALS,
        is_floor=True,
    ),
    Metric(
        name="replication_lag_left",
        target="SLAVE",
        unit=BYTES,
        text="distance behind its master's log at the end",
        unknown_when="as `replication_lag`",
        rests_on=BROKER_JOURNALS,
    ),
    Metric(
        name="replication_lag_duration",
        target="SLAVE",
        unit=SECONDS,
        text="longest time behind its master's log",
        definition="From the first sample in which its log ended before its master's to the first in which it did not.",
        blind_to="changes between two samples",
        unknown_when="as `replication_lag`",
        rests_on=BROKER_JOURNALS,
        is_floor=True,
    ),
)

DIVERGENCE: Final = (
    Metric(
        name="divergence",
        target="SLAVE",
        unit=BYTES,
        text="bytes of its log that differ from its master's",
        definition="Bytes that differ, as far as both logs go. RocketMQ copies bytes, so any difference is for good."
        " After a promotion, the former master is compared as well.",
        unknown_when="one of the stores was not given or lacks files of its log, or the logs have no byte in common",
    ),
    Metric(name="behind", target="SLAVE", unit=BYTES, text="how far its log ends before its master's"),
    Metric(name="ahead", target="SLAVE", unit=BYTES, text="how far its log ends beyond its master's"),
)

RECORDS_AND_QUEUES: Final = (
    Metric(
        name="corrupt",
        target="NODE",
        unit=RECORDS,
        text="records of its log that cannot be read",
        definition="Records whose body fails its CRC, and records in holes of the log: bytes that are no record, with"
        " records behind them. Consume queue entries that point into a hole say what it held. Records behind a hole"
        " count as stored, but a broker that starts after a crash cuts its log off at the hole.",
        blind_to="altered bytes that no CRC covers (all but the body), holes that no queue entry points into, and"
        " a log that ends early",
    ),
    Metric(
        name="dangling",
        target="NODE",
        unit=ENTRIES,
        text="entries of its consume queues that do not point at their record, or have a wrong tags code",
        definition="The commit log has another record at the entry's place, or none: of another topic, queue, queue"
        " offset or size. Or the entry's tags code is not that of its record: brokers filter messages by it. Entries"
        " below the first file of the log belong to expired messages.",
        blind_to="records that no entry points at, and wrong times of delivery in entries of delayed messages, except"
        " those before the message was stored",
        unknown_when="the store has records and no consume queues, lacks files of its log, or lost power and was not"
        " started again",
    ),
    Metric(
        name="unqueued",
        target="NODE",
        unit=RECORDS,
        text="records of its log without a consume queue entry",
        definition="Readable records without an entry of their topic, queue and queue offset at their place. What a"
        " member of a DLedger group does not know to be committed does not count.",
        unknown_when="the node was not stopped in good order: records are entered after they are stored",
        excused_by=REQUESTS,
    ),
)

DELAY_OFFSET_AHEAD: Final = Metric(
    name="delay_offset_ahead",
    target="NODE",
    unit=MESSAGES,
    text="largest distance of a saved offset of a delay level beyond its queue's end",
    definition="delayOffset.json of the node, against the end of the level's queue in all stores of its broker name."
    " The queue of a level without messages ends at 0 if each of these logs begins at 0.",
    blind_to="offsets that skip messages without leaving the queue, and levels whose messages all expired",
    unknown_when="the file cannot be read, a store of the broker name is missing, or the node lost power or its store"
    " and was not started again",
)

STORE_FILES: Final = (
    Metric(
        name="unindexed",
        target="NODE",
        unit=MESSAGES,
        text="in its log, but outside the range of each index file",
        definition="Readable messages with a unique id that the run stored, between no begin and end that the head"
        " of an index file states. What a member of a DLedger group does not know to be committed does not count.",
        blind_to="single entries of an index file (warnings name some)",
        unknown_when="the node was not stopped in good order each time it ended, or has messageIndexEnable=false",
    ),
    Metric(
        name="topics_missing",
        target="NODE",
        unit=TOPICS,
        text="topics with messages in its log, but not in topics.json",
        definition="Topics, except those of RocketMQ itself, whose first record is at least 30 s older than the run's"
        " end: a slave learns of a topic later than of its messages.",
        unknown_when="topics.json cannot be read, or the node lost power or its store and was not started again",
        excused_by=REQUESTS,
    ),
    Metric(
        name="offset_file_ahead",
        target="NODE",
        unit=MESSAGES,
        text="largest distance of a saved offset beyond its queue's end",
        definition="consumerOffset.json of the node, against the end of the queue in all stores of its broker name. A"
        " queue without messages ends at 0 if each of these logs begins at 0.",
        blind_to="offsets that skip messages without leaving the queue, and queues whose messages all expired",
        unknown_when="the file cannot be read, or a store of the broker name is missing",
    ),
    DELAY_OFFSET_AHEAD,
)

GROUPS_MISSING: Final = Metric(
    name="groups_missing",
    target="NODE",
    unit=GROUPS,
    text="groups that consumed from a master, but are not in subscriptionGroup.json",
    blind_to="tables of slaves, and groups that consumed before the node's last start only",
    unknown_when="the file cannot be read, or the node lost power or its store and was not started again",
    excused_by=REQUESTS,
)

DELAY_OFFSET_BEHIND: Final = Metric(
    name="delay_offset_behind",
    target="NODE",
    unit=MESSAGES,
    text="largest distance of deliveries of a delay level beyond its saved offset",
    definition="delayOffset.json of a master, against delayed messages that its log has under their own topic, too. Of a"
    " message that was delayed several times, as by a client that retries, only records count that were due and must be"
    " the delivered ones.",
    blind_to="deliveries of such a message behind the first one, if a master started again or another one followed",
    unknown_when="the file cannot be read, or the node was not stopped in good order",
)

TABLE_FILES: Final = (GROUPS_MISSING, DELAY_OFFSET_BEHIND)
