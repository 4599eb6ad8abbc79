"""Every metric of a run: unit, definition, what it cannot see, and when it is unknown.

Both judges compute these; `rmqlab check --metrics` prints them. Seconds are of the cluster's clock. BROKER is a
broker name (`broker-a`), NODE and SLAVE a node (`broker-a-s`), QUEUE is `topic@broker-a:0`, GROUP a consumer group,
NAMESERVER `namesrv-1`, and a WATCHER is a nameserver or a workload (`produce-1`).
"""

import itertools
from typing import Final

from rmqlab.verdict.causes import DUPLICATE_CAUSES
from rmqlab.verdict.metrics import Metric, Source
from rmqlab.verdict.outcomes import OUTCOMES, STORED

MESSAGES: Final = "messages"
DELIVERIES: Final = "deliveries"
BYTES: Final = "bytes"
SECONDS: Final = "s"
TIMES: Final = "times"
RECORDS: Final = "records"
ENTRIES: Final = "entries"
TOPICS: Final = "topics"
GROUPS: Final = "groups"

_SUPERVISOR: Final = frozenset({Source.SUPERVISOR})
_SENDS: Final = _SUPERVISOR | {Source.PRODUCERS}
_DELIVERIES: Final = _SUPERVISOR | {Source.CONSUMERS}
_BROKERS: Final = _SUPERVISOR | {Source.BROKERS}
_NAMESERVERS: Final = _SUPERVISOR | {Source.NAMESERVERS}

_NOTHING_SENT = "no workload of the journal sent anything, or the journal of a producer is incomplete"
_STORE_MISSING = "a store that could hold one of the messages was not given or cannot be read"

LOSS: Final = (
    Metric(
        name="lost",
        unit=MESSAGES,
        says="acknowledged, and in no store",
        definition="Messages whose send ended in an outcome that says stored, and of which no store of the run has a"
        " readable copy under any topic (delayed and half messages lie under a system topic).",
        blind_to="messages of clients that keep no journal; copies on machines whose stores were not given",
        unknown_when=f"{_NOTHING_SENT}; {_STORE_MISSING}; an acknowledged send carries no unique id",
        rests_on=_SENDS,
        is_floor=True,
    ),
    *(
        Metric(
            name=f"lost.{outcome}",
            unit=MESSAGES,
            says=f"acknowledged with {outcome}, and in no store",
            rests_on=_SENDS,
            is_floor=True,
        )
        for outcome in STORED
    ),
    Metric(
        name="unreadable",
        unit=MESSAGES,
        says="lost, with damaged records of them left",
        definition="The part of `lost` of which a store has a record whose body fails its CRC, or a consume queue"
        " entry that points into a hole of the commit log (see `corrupt`).",
        unknown_when="as `lost`",
        rests_on=_SENDS,
        is_floor=True,
    ),
    Metric(
        name="expired",
        unit=MESSAGES,
        says="acknowledged, and deleted for their age",
        definition="Like `lost`, where the broker deleted commit log files and no longer has the queue up to the"
        " message's offset.",
        unknown_when="as `lost`",
        rests_on=_SENDS,
        is_floor=True,
    ),
    Metric(
        name="missing",
        target="NODE",
        unit=MESSAGES,
        says="acknowledged, and not in this node's store",
        definition="Acknowledged messages of the node's broker name that this store does not hold, whether another"
        " store holds them or not: what would be lost with all other stores.",
        unknown_when="no send to the node's broker name was acknowledged",
        rests_on=_SENDS,
        is_floor=True,
    ),
    Metric(
        name="unreplicated",
        target="BROKER",
        unit=MESSAGES,
        says="answered SEND_OK by a SYNC_MASTER, and in no slave's store",
        definition="Messages whose send ended in SEND_OK, in a cluster of SYNC_MASTERs, and that no slave of the broker"
        " name holds, where no slave removed records afterwards (wiped store, power loss, deleted file, cut log).",
        blind_to="a message that its slave never had, if the slave removed other records later",
        unknown_when="a slave's store was not given; the cluster's role is ASYNC_MASTER or not recorded",
        rests_on=_SENDS,
        is_floor=True,
    ),
    Metric(
        name="sent",
        unit=MESSAGES,
        says="sends, whatever came of them",
        unknown_when="the journal of a producer is incomplete",
        rests_on=_SENDS,
        is_floor=True,
    ),
    *(
        Metric(
            name=f"sent.{outcome}", unit=MESSAGES, says=f"sends that ended in {outcome}", rests_on=_SENDS, is_floor=True
        )
        for outcome in OUTCOMES
    ),
    Metric(
        name="stored.indeterminate",
        unit=MESSAGES,
        says="indeterminate for their producer, and in a store",
        unknown_when="a store is missing: then it is at least the value",
        rests_on=_SENDS,
        is_floor=True,
    ),
    Metric(
        name="stored.refused",
        unit=MESSAGES,
        says="refused, and in a store all the same",
        unknown_when="a store is missing: then it is at least the value",
        rests_on=_SENDS,
        is_floor=True,
    ),
    Metric(
        name="unclaimed",
        unit=MESSAGES,
        says="in a store, and sent by nobody in the journal",
        definition="Messages stored since the run began, in a topic that the run sent to or that is no system topic,"
        " whose unique id no send and no failed attempt of any journal names.",
        blind_to="which client sent them: a deleted journal and a client that keeps none look the same",
        unknown_when="no store was given",
    ),
)

DUPLICATES: Final = (
    Metric(
        name="stored_twice",
        unit=MESSAGES,
        says="stored at more than one place",
        definition="Messages at more than one place (broker name, queue, queue offset) of the topic they were sent"
        " to. A client that retries causes this: the first attempt was carried out, but its answer was lost.",
        unknown_when="nothing was sent or no store was given; with a store missing it is at least the value",
        rests_on=_SENDS,
        is_floor=True,
    ),
    Metric(
        name="duplicates",
        unit=DELIVERIES,
        says="deliveries of a message to a group beyond the first",
        definition="Each counts under exactly one cause.",
        blind_to="broadcasting groups, whose consumers each receive every message",
        unknown_when="nothing was delivered to a workload of the journal",
        rests_on=_DELIVERIES,
        is_floor=True,
    ),
    *(
        Metric(
            name=f"duplicates.{cause}", unit=DELIVERIES, says=f"such, {says}", rests_on=_DELIVERIES | _SENDS | _BROKERS
        )
        for cause, says in DUPLICATE_CAUSES.items()
    ),
)

UNAVAILABILITY: Final = (
    *(
        Metric(
            name=f"{way}_unavailable",
            target=target,
            unit=SECONDS,
            says=f"longest time without a {what}",
            definition="From the last success to the next one, where at least one attempt failed in between."
            " A window that no success has ended runs to its last failure, and is at least that long.",
            blind_to="time in which nobody tried" + more,
            unknown_when=f"nothing was {done} the target",
            rests_on=rests_on,
        )
        for way, what, done, more, rests_on in (
            ("write", "send that was stored", "sent to", "", _SENDS),
            (
                "read",
                "pull that was answered",
                "read from",
                "; a broker that stops while it holds pulls, until they are overdue",
                _DELIVERIES,
            ),
        )
        for target in ("BROKER", "QUEUE")
    ),
    Metric(
        name="group_read_unavailable",
        target="GROUP",
        unit=SECONDS,
        says="longest time without an answered pull at one broker name",
        definition="Like `read_unavailable`, for one consumer group, at the broker name where it lasted longest.",
        unknown_when="the group pulled nothing",
        rests_on=_DELIVERIES,
    ),
)

DETECTION: Final = (
    Metric(
        name="detection",
        target="WATCHER",
        unit=SECONDS,
        says="longest time until an absent broker was named no longer",
        definition="From the moment a broker was killed, stopped, paused or isolated until the watcher no longer names"
        " its address.",
        blind_to="brokers that came back before the watcher dropped them (see `stale_route`)",
        unknown_when="no broker that the watcher named was away long enough, or the watcher was away itself",
        rests_on=_SUPERVISOR,
    ),
)

ROUTES: Final = (
    Metric(
        name="stale_route",
        target="WATCHER",
        unit=SECONDS,
        says="longest time it named a broker that was away",
        unknown_when="the workload records no routes",
        rests_on=_SUPERVISOR,
    ),
    Metric(
        name="missing_route",
        target="NAMESERVER",
        unit=SECONDS,
        says="longest time it did not name one that was ready",
        rests_on=_SUPERVISOR,
    ),
    Metric(
        name="route_disagreement",
        unit=SECONDS,
        says="longest time in which two nameservers named different brokers",
        unknown_when="there are fewer than two nameservers",
        rests_on=_NAMESERVERS,
    ),
)

ORDER: Final = (
    Metric(
        name="order.stored",
        unit=MESSAGES,
        says="stored behind one that was sent only after them",
        definition="Per queue, in any node's log: the later send began only after the earlier one was acknowledged.",
        blind_to="sends that overlapped, and delayed and half messages",
        unknown_when="nothing was acknowledged or no store was given",
        rests_on=_SENDS,
        is_floor=True,
    ),
    Metric(
        name="order.delivered",
        target="GROUP",
        unit=MESSAGES,
        says="first delivered after a later one of the queue",
        definition="Orderly consumers never see this. Concurrent consumers may.",
        blind_to="messages that come a second time (`duplicates`), and those of a retry topic",
        unknown_when="the group received nothing",
        rests_on=_DELIVERIES,
    ),
)

ROLLBACKS: Final = (
    Metric(
        name="offset_rollbacks",
        unit=TIMES,
        says="a consumer offset went back",
        definition="By a commit that a broker took, by a slave's metadata sync, by a correction of a consumer whose"
        " offset is out of bounds, or by a group whose next commit is below its last one.",
        unknown_when="no consumer group consumed or committed anything",
        rests_on=_DELIVERIES | _BROKERS,
        is_floor=True,
    ),
    Metric(
        name="offset_rollbacks",
        target="GROUP",
        unit=TIMES,
        says="an offset of this group went back",
        rests_on=_DELIVERIES | _BROKERS,
        is_floor=True,
    ),
    Metric(
        name="rolled_back",
        target="GROUP",
        unit=MESSAGES,
        says="the farthest that an offset of it went back",
        rests_on=_DELIVERIES | _BROKERS,
        is_floor=True,
    ),
)

OFFSET_FILES: Final = (
    Metric(
        name="offset_file_behind",
        target="NODE",
        unit=MESSAGES,
        says="furthest that a stored offset is below a commit",
        definition="consumerOffset.json of the node, against the last commit to it that it had time to save (every"
        " 5 s, first 10 s after a start, and at a stop in good order).",
        blind_to="offsets that no workload of the journal committed, and those that a slave got from its master",
        unknown_when="the file cannot be read, or no commit must be in it",
        rests_on=_DELIVERIES,
        is_floor=True,
    ),
)

REPLICATION: Final = (
    Metric(
        name="replication_lag",
        target="SLAVE",
        unit=BYTES,
        says="the most it was behind its master's log",
        definition="The largest difference of both logs' ends in the samples of one instant (one a second).",
        blind_to="what comes and goes between two samples",
        unknown_when="the master or the slave recorded no sample",
        rests_on=_BROKERS,
        is_floor=True,
    ),
    Metric(
        name="replication_lag_left",
        target="SLAVE",
        unit=BYTES,
        says="how far it was behind in the end",
        unknown_when="as `replication_lag`",
        rests_on=_BROKERS,
    ),
)

DIVERGENCE: Final = (
    Metric(
        name="divergence",
        target="SLAVE",
        unit=BYTES,
        says="of its log that are not its master's",
        definition="Bytes that differ, as far as both logs go. RocketMQ copies bytes, so any difference is for good.",
        unknown_when="one of the stores was not given, or the logs have no byte in common",
    ),
    Metric(name="behind", target="SLAVE", unit=BYTES, says="its log ends so much before its master's"),
    Metric(name="ahead", target="SLAVE", unit=BYTES, says="its log ends so much beyond its master's"),
)

RECORDS_AND_QUEUES: Final = (
    Metric(
        name="corrupt",
        target="NODE",
        unit=RECORDS,
        says="of its log that cannot be read",
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
        says="of its consume queues that point at no record of theirs",
        definition="The commit log has another record at the entry's place, or none: of another topic, queue, queue"
        " offset or size. Entries below the first file of the log belong to expired messages.",
        blind_to="records that no entry points at",
        unknown_when="the store has records and no consume queues, or lost power and was not started again",
    ),
    Metric(
        name="unqueued",
        target="NODE",
        unit=RECORDS,
        says="of its log that no consume queue entry points at",
        definition="Readable records without an entry of their topic, queue and queue offset at their place.",
        unknown_when="the node was not stopped in good order: records are entered after they are stored",
    ),
)

STORE_FILES: Final = (
    Metric(
        name="unindexed",
        target="NODE",
        unit=MESSAGES,
        says="in its log, and in the range of no index file",
        definition="Readable messages with a unique id that the run stored, between no begin and end that the head"
        " of an index file states.",
        blind_to="single entries of an index file; files of a broker with messageIndexEnable=false count as missing",
        unknown_when="the node was not stopped in good order each time it ended",
    ),
    Metric(
        name="topics_missing",
        target="NODE",
        unit=TOPICS,
        says="with messages in its log, and not in topics.json",
        definition="Topics, except those of RocketMQ itself, whose first record is at least 30 s older than the run's"
        " end: a slave learns of a topic later than of its messages.",
        unknown_when="topics.json cannot be read, or the node lost power or its store and was not started again",
    ),
    Metric(
        name="offset_file_ahead",
        target="NODE",
        unit=MESSAGES,
        says="furthest that a stored offset is beyond its queue's end",
        definition="consumerOffset.json of the node, against the end of the queue in all stores of its broker name.",
        blind_to="offsets that skip messages without leaving the queue, and queues whose messages all expired",
        unknown_when="the file cannot be read, or a store of the broker name is missing",
    ),
)

DELIVERED_UNSTORED: Final = Metric(
    name="delivered_unstored",
    unit=MESSAGES,
    says="delivered, and in no store",
    definition="Messages that a consumer received and of which no store has a readable copy under any topic, without"
    " those that their broker deleted for their age.",
    unknown_when="nothing was delivered, or a store that could hold one of the messages cannot be read",
)

GROUPS_MISSING: Final = Metric(
    name="groups_missing",
    target="NODE",
    unit=GROUPS,
    says="that consumed from a master, and not in subscriptionGroup.json",
    blind_to="tables of slaves, and groups that consumed before the node's last start only",
    unknown_when="the file cannot be read, or the node lost power or its store and was not started again",
)

DELAY_OFFSET_BEHIND: Final = Metric(
    name="delay_offset_behind",
    target="NODE",
    unit=MESSAGES,
    says="furthest that a delay level delivered beyond its stored offset",
    definition="delayOffset.json of a master, against delayed messages that its log has under their own topic, too.",
    unknown_when="the file cannot be read, or the node was not stopped in good order",
)

TABLE_FILES: Final = (GROUPS_MISSING, DELAY_OFFSET_BEHIND)

CLOCKS: Final = (
    Metric(
        name="clock_disagreement",
        target="NODE",
        unit=SECONDS,
        says="furthest that its events contradict those of others",
        definition="A message delivered before it was sent or stored, stored before it was sent or after it was"
        " acknowledged, or an event written before the cluster's start or after the node's end. The node that disagrees"
        " with more others is named.",
        blind_to="differences below 1 s, and a node that is ahead by less than it lived on after its last event",
        unknown_when="no event of the node can be compared with another's",
        rests_on=_SENDS | _DELIVERIES,
        is_floor=True,
    ),
)

METRICS: Final = tuple(
    itertools.chain(
        LOSS,
        DUPLICATES,
        ORDER,
        UNAVAILABILITY,
        DETECTION,
        ROUTES,
        ROLLBACKS,
        OFFSET_FILES,
        REPLICATION,
        DIVERGENCE,
        RECORDS_AND_QUEUES,
        STORE_FILES,
        (DELIVERED_UNSTORED,),
        TABLE_FILES,
        CLOCKS,
    )
)
"""All metrics, in the order of reports."""
