"""Metrics of messages: losses, repetitions, inversions of order."""

from typing import Final

from rmqlab.verdict.catalogue.shared import (
    BROKER_JOURNALS,
    CONSUMER_JOURNALS,
    DELIVERIES,
    DISTURBANCES,
    MESSAGES,
    NOTHING_SENT,
    PRODUCER_JOURNALS,
    REQUESTS,
    STORE_MISSING,
    SUPERVISOR_JOURNAL,
)
from rmqlab.verdict.causes import DUPLICATE_CAUSES
from rmqlab.verdict.metrics import Metric
from rmqlab.verdict.outcomes import OUTCOMES, STORED

LOSS: Final = (
    Metric(
        name="lost",
        unit=MESSAGES,
        text="acknowledged, and in no store",
        definition="Messages whose send ended in an outcome that means stored, and of which no store of the run has a"
        " readable copy under any topic (delayed and half messages are under a system topic).",
        blind_to="messages of clients that keep no journal; copies on machines whose stores were not given",
        unknown_when=f"{NOTHING_SENT}; {STORE_MISSING}; an acknowledged send carries no unique id",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
    ),
    *(
        Metric(
            name=f"lost.{outcome}",
            unit=MESSAGES,
            text=f"acknowledged with {outcome}, and in no store",
            rests_on=PRODUCER_JOURNALS,
            is_floor=True,
        )
        for outcome in STORED
    ),
    Metric(
        name="unreadable",
        unit=MESSAGES,
        text="lost, with damaged records left in a store",
        definition="The part of `lost` of which a store has a record whose body fails its CRC, or a consume queue"
        " entry that points into a hole of the commit log (see `corrupt`).",
        unknown_when="as `lost`",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
    ),
    Metric(
        name="expired",
        unit=MESSAGES,
        text="acknowledged, and deleted for their age",
        definition="Like `lost`, where each broker that acknowledged it deleted commit log files and no longer has the"
        " queue up to the message's offset. A message that was sent more than 1 s after the first record of the log was"
        " stored is `lost`: what a broker deletes is older. A run with faults of clocks has no such bound.",
        unknown_when="as `lost`",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
    ),
    Metric(
        name="missing",
        target="NODE",
        unit=MESSAGES,
        text="acknowledged, and not in this node's store",
        definition="Acknowledged messages of the node's broker name that this store does not hold, whether another"
        " store holds them or not: what would be lost with all other stores.",
        unknown_when="no send to the node's broker name was acknowledged",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
    ),
    Metric(
        name="unreplicated",
        target="BROKER",
        unit=MESSAGES,
        text="acknowledged with SEND_OK by a SYNC_MASTER, and in no slave's store",
        definition="Messages whose send ended in SEND_OK, in a cluster of SYNC_MASTERs, and that no slave of the broker"
        " name holds, where no slave removed records afterwards (wiped store, power loss, deleted file, cut log).",
        blind_to="a message that its slave never had, if the slave removed other records later",
        unknown_when="a slave's store was not given; the cluster's role is ASYNC_MASTER; the role is not recorded, and a"
        " slave lacks messages",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
    ),
    Metric(
        name="sent",
        unit=MESSAGES,
        text="all sends, with any outcome",
        unknown_when="the journal of a producer is incomplete",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
    ),
    *(
        Metric(
            name=f"sent.{outcome}",
            unit=MESSAGES,
            text=f"sends that ended in {outcome}",
            rests_on=PRODUCER_JOURNALS,
            is_floor=True,
        )
        for outcome in OUTCOMES
    ),
    Metric(
        name="stored.indeterminate",
        unit=MESSAGES,
        text="sent with outcome indeterminate, and in a store",
        unknown_when="a store is missing: then it is at least the value",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
    ),
    Metric(
        name="stored.refused",
        unit=MESSAGES,
        text="refused, but in a store",
        unknown_when="a store is missing: then it is at least the value",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
    ),
    Metric(
        name="stored_unsent",
        unit=MESSAGES,
        text="in a store, but without a send in the journal",
        definition="Messages stored since the run began, in a topic that the run sent to or that is no system topic,"
        " whose unique id no send and no failed attempt of any journal names. While a workload sends, those of the last"
        " minute of the cluster's clock, and of the last 10 real seconds, do not count: their sends may not be"
        " recorded.",
        blind_to="which client sent them: a deleted journal and a client that keeps none look the same",
        unknown_when="no store was given",
    ),
)

PLACE_DISAGREEMENT: Final = Metric(
    name="place_disagreement",
    unit=MESSAGES,
    text="acknowledged or delivered with another place than its record",
    definition="Messages in the stores, but not at the queue and offset that the acknowledgement of their only send or"
    " a delivery names.",
    blind_to="messages with failed attempts or several sends, those that a consumer sent back, and places at brokers"
    " that removed or lost records",
    unknown_when="nothing was sent or no store was given; with a store missing it is at least the value",
    rests_on=PRODUCER_JOURNALS | CONSUMER_JOURNALS,
    is_floor=True,
    excused_by=DISTURBANCES,
)

DUPLICATES: Final = (
    Metric(
        name="stored_twice",
        unit=MESSAGES,
        text="stored at more than one place",
        definition="Messages at more than one place (broker name, queue, queue offset) of the topic they were sent"
        " to. A client that retries causes this: the first attempt was carried out, but its response was lost.",
        unknown_when="nothing was sent or no store was given; with a store missing it is at least the value",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
    ),
    Metric(
        name="duplicates",
        unit=DELIVERIES,
        text="deliveries of a message to a group beyond the first",
        definition="Each counts under exactly one cause. A delivery to another consumer is a rebalance unless it did not"
        " have the queue, by its own journal, or both had had it without an event that could be why: for 180 s or, on a"
        " busy machine, 10 real seconds nothing had failed, started, ended or changed, and no fault was in force. A"
        " redelivery has reconsume times that are new at its place; one that comes again needs another cause.",
        blind_to="broadcasting groups, whose consumers each receive every message; two holders of a queue after an"
        " operation (`operated`), which may have changed the queues; for a consumer whose journal does not begin with"
        " `journal_opened`, the queues that it had; how often a message may be sent back",
        unknown_when="nothing was delivered to a workload of the journal; with deliveries without a message id it is at"
        " least the value",
        rests_on=CONSUMER_JOURNALS,
        is_floor=True,
    ),
    *(
        Metric(
            name=f"duplicates.{cause}",
            unit=DELIVERIES,
            text=f"duplicates: {text}",
            rests_on=CONSUMER_JOURNALS | PRODUCER_JOURNALS | BROKER_JOURNALS,
        )
        for cause, text in DUPLICATE_CAUSES.items()
    ),
)

ORDER: Final = (
    Metric(
        name="order.stored",
        unit=MESSAGES,
        text="stored behind a message that was sent later",
        definition="Per queue, in any node's log: the later send began only after the earlier one was acknowledged.",
        blind_to="sends that overlapped, and delayed and half messages",
        unknown_when="nothing was acknowledged or no store was given",
        rests_on=PRODUCER_JOURNALS,
        is_floor=True,
        excused_by=REQUESTS,
    ),
    Metric(
        name="order.delivered",
        target="GROUP",
        unit=MESSAGES,
        text="first delivered after a later message of the queue",
        definition="Orderly consumers never see this. Concurrent consumers may.",
        blind_to="messages that come a second time (`duplicates`), and those of a retry topic",
        unknown_when="the group received nothing",
        rests_on=CONSUMER_JOURNALS,
        excused_by=REQUESTS,
    ),
)

DELIVERED_UNSTORED: Final = Metric(
    name="delivered_unstored",
    unit=MESSAGES,
    text="delivered, and in no store",
    definition="Messages that a consumer received and of which no store has a readable copy under any topic, without"
    " those that their broker deleted for their age, as for `expired`.",
    unknown_when="nothing was delivered, a delivery carries no message id, or a store that could hold one of the messages"
    " cannot be read",
    rests_on=CONSUMER_JOURNALS,
    is_floor=True,
)
ORIGIN_DISAGREEMENT: Final = Metric(
    name="origin_disagreement",
    unit=MESSAGES,
    text="in a store with another time or address of their producer",
    definition="Messages of which a store has a readable copy whose born time is more than 1 s outside of their only"
    " send, or whose born host is no address of their producer, as brokers recorded its client. Records are compared"
    " as for `content_disagreement`.",
    blind_to="records stored after a broker removed some, which an operator may have sent again; batches, other times"
    " within the send, ports, and producers that share one address",
    unknown_when="nothing was sent, no store was given, or a fault set clocks; with a store missing it is at least the"
    " value",
    rests_on=PRODUCER_JOURNALS,
    is_floor=True,
    excused_by=DISTURBANCES,
)

CONTENT_DISAGREEMENT: Final = Metric(
    name="content_disagreement",
    unit=MESSAGES,
    text="in a store with another content than its producer sent",
    definition="Messages of which a store has a readable copy whose body, flag, keys or tags are not those of their only"
    " send: the journal has a CRC-32 of them. One log or all of them may be altered, and the CRC of the body with it."
    " Records in topics of consumers (%RETRY%, %DLQ%) and of transactions are not compared, nor are messages whose half"
    " message a broker stored again: 4.9.8 gives it flag 0.",
    blind_to="other properties (such as the delay level), the time and address of the producer, and messages of clients"
    " that record no checksum",
    unknown_when="no send in the journal has a checksum, or no store was given; with a store missing, or a send without"
    " a checksum, it is at least the value",
    rests_on=PRODUCER_JOURNALS,
    is_floor=True,
)

HEADER_DISAGREEMENT: Final = Metric(
    name="header_disagreement",
    unit=MESSAGES,
    text="in a store with a header that its broker did not write",
    definition="Messages with one send, of which a store has a readable copy with a wrong field. The sysFlag is that of"
    " the send; its bits of transactions follow from the topic. The store host is an address of the broker name. The"
    " reconsume times are 0 without a retry, and those of the first delivery from a retry topic. The prepared"
    " transaction offset is that of the half message of a committed message, and 0 for others.",
    blind_to="records stored after a broker removed some, which an operator may have sent again; batches; the sysFlag"
    " of sends before it was recorded, and of messages that a consumer sent back; copies that a client sent to another"
    " topic; store hosts that are IPv6 addresses, of brokers that were renamed, and all of them if a broker got another"
    " address; reconsume times of messages without a delivery from their retry topic that recorded them; half messages"
    " before the first file of the log, and in damaged parts",
    unknown_when="nothing was sent or no store was given; with a store missing it is at least the value",
    rests_on=PRODUCER_JOURNALS | CONSUMER_JOURNALS,
    is_floor=True,
    excused_by=DISTURBANCES,
)

DELIVERED_EARLY: Final = Metric(
    name="delivered_early",
    unit=MESSAGES,
    text="delayed, and stored in its own topic before it was due",
    definition="Messages with one send, whose first record under their own topic in a log has an earlier store time than"
    " the time of delivery: the store time of the delayed record and the delay of its level, or the time in its entry of"
    " SCHEDULE_TOPIC_XXXX if that is later, to the millisecond.",
    blind_to="records stored after a broker removed some; batches, messages with failed attempts, deliveries behind the"
    " first one, and messages that a consumer sent back",
    unknown_when="nothing was sent, no store was given, or brokers had different delay levels; messages of a broker name"
    " are not compared if the clock of a master of it went back, or a fault set it; with a store missing it is at least"
    " the value",
    rests_on=PRODUCER_JOURNALS,
    is_floor=True,
    excused_by=DISTURBANCES | PRODUCER_JOURNALS,
)

STORED_UNCOMMITTED: Final = Metric(
    name="stored_uncommitted",
    unit=MESSAGES,
    text="not committed by their producer, and stored in their own topic",
    definition="Half messages whose producer rolled them back, or left them undecided, without a check of their"
    " transaction state by a broker, which producers of the journal answer with a commit, and of which a store has a"
    " record under their own topic, or one that is delayed for it. A broker checks with any producer of the group: its"
    " own event counts as such a check if one of them has no journal, was killed or still runs.",
    blind_to="messages of clients that keep no journal, and of producers before these recorded which messages they did"
    " not commit; rolled back messages whose state a broker checked",
    unknown_when="nothing was sent or no store was given; with a store missing it is at least the value",
    rests_on=PRODUCER_JOURNALS,
    is_floor=True,
    excused_by=PRODUCER_JOURNALS | BROKER_JOURNALS,
)

OVERDUE: Final = Metric(
    name="overdue",
    unit=MESSAGES,
    text="delayed or half, and held back in a system topic beyond its time",
    definition="Delayed messages in the log of the last master of a broker name that are not under their own topic"
    " behind it, and half messages without an outcome: no commit, no rollback, no check, and not given up. They count if"
    " the broker went past them, by its saved progress (delayOffset.json, or the offset of CID_RMQ_SYS_TRANS). They also"
    " count if their time was over for a minute, and for 10 real seconds, when the master ended or the run did, and the"
    " master served without a break meanwhile. The time of a half message is transactionTimeOut and one"
    " transactionCheckInterval.",
    blind_to="messages whose time was over while no master served; half messages from before a broker of that name lost"
    " records, and those that were given up (topic TRANS_CHECK_MAX_TIME_TOPIC) or that a broker checks in vain; a"
    " message that was delayed again before it was delivered once",
    unknown_when="no store was given, or one that could hold one of the messages cannot be read; messages of a broker name"
    " are not judged if two masters ran at once, if the clock of a master went back or a fault set it, or if its"
    " settings of transactions changed or are unknown; with a store missing it is at least the value",
    rests_on=SUPERVISOR_JOURNAL,
    is_floor=True,
    excused_by=DISTURBANCES,
)

STORE_TIME_DISAGREEMENT: Final = Metric(
    name="store_time_disagreement",
    unit=MESSAGES,
    text="with another store time than the records around it, where times contradict",
    definition="Messages whose store time contradicts a journal by more than 1 s, as for `clock_disagreement`, and of"
    " which a log has a record more than 1 s before the one ahead of it, or after the one behind it, while the two ahead"
    " of it and the two behind it are in order. A wrong clock would affect its neighbours, too, so the record itself was"
    " altered, and `clock_disagreement` leaves it out.",
    blind_to="other store times that contradict no journal, the first and the last record of a log, and records with"
    " another altered one among the two ahead or behind; messages of an earlier run in the same stores",
    unknown_when="nothing was sent or delivered, no store was given, or a fault set clocks; with a store missing it is at least the value",
    rests_on=PRODUCER_JOURNALS | CONSUMER_JOURNALS,
    is_floor=True,
    excused_by=SUPERVISOR_JOURNAL,
)
