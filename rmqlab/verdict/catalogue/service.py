"""Metrics of the service to clients: outages, routes, consumer offsets, clocks."""

from typing import Final

from rmqlab.verdict.catalogue.shared import (
    BROKER_JOURNALS,
    CONSUMER_JOURNALS,
    MESSAGES,
    NAMESERVER_JOURNALS,
    PRODUCER_JOURNALS,
    REQUESTS,
    SECONDS,
    SUPERVISOR_JOURNAL,
    TIMES,
)
from rmqlab.verdict.metrics import Metric

UNAVAILABILITY: Final = (
    *(
        Metric(
            name=f"{way}_unavailable",
            target=target,
            unit=SECONDS,
            text=f"longest time without a {what}",
            definition="From the last success to the next one, where at least one attempt failed in between."
            " A window that no success has ended runs to its last failure, and is at least that long.",
            blind_to="time without attempts" + more,
            unknown_when=f"nothing was {done} the target",
            rests_on=rests_on,
        )
        for way, what, done, more, rests_on in (
            ("write", "stored send", "sent to", "", PRODUCER_JOURNALS),
            (
                "read",
                "successful pull",
                "read from",
                "; a broker that stops while it holds pulls, until they are overdue",
                CONSUMER_JOURNALS,
            ),
        )
        for target in ("BROKER", "QUEUE")
    ),
    Metric(
        name="group_read_unavailable",
        target="GROUP",
        unit=SECONDS,
        text="longest time without a successful pull at one broker name",
        definition="Like `read_unavailable`, for one consumer group, at the broker name where it lasted longest.",
        unknown_when="the group pulled nothing",
        rests_on=CONSUMER_JOURNALS,
    ),
)

DETECTION: Final = (
    Metric(
        name="detection",
        target="WATCHER",
        unit=SECONDS,
        text="longest time from a broker's absence until the watcher dropped its address",
        definition="From the moment a broker was killed, stopped, paused or isolated until the watcher no longer names"
        " its address.",
        blind_to="brokers that came back before the watcher dropped them (see `stale_route`)",
        unknown_when="no broker that the watcher named was away long enough, or the watcher was away itself",
        rests_on=SUPERVISOR_JOURNAL,
    ),
)

ROUTES: Final = (
    Metric(
        name="stale_route",
        target="WATCHER",
        unit=SECONDS,
        text="longest time that the watcher named a broker that was away",
        unknown_when="the workload records no routes",
        rests_on=SUPERVISOR_JOURNAL,
    ),
    Metric(
        name="missing_route",
        target="NAMESERVER",
        unit=SECONDS,
        text="longest time that the nameserver did not name a broker that was ready",
        rests_on=SUPERVISOR_JOURNAL,
    ),
    Metric(
        name="route_disagreement",
        unit=SECONDS,
        text="longest time in which two nameservers named different brokers",
        unknown_when="there are fewer than two nameservers",
        rests_on=NAMESERVER_JOURNALS,
    ),
)

ROLLBACKS: Final = (
    Metric(
        name="offset_rollbacks",
        unit=TIMES,
        text="how often a consumer offset went back",
        definition="By a commit that a broker took, by a slave's metadata sync, by a correction of a consumer whose"
        " offset is out of bounds, or by a group whose next commit is below its last one.",
        unknown_when="no consumer group consumed or committed anything",
        rests_on=CONSUMER_JOURNALS | BROKER_JOURNALS,
        is_floor=True,
        excused_by=REQUESTS,
    ),
    Metric(
        name="offset_rollbacks",
        target="GROUP",
        unit=TIMES,
        text="how often an offset of this group went back",
        rests_on=CONSUMER_JOURNALS | BROKER_JOURNALS,
        is_floor=True,
        excused_by=REQUESTS,
    ),
    Metric(
        name="rolled_back",
        target="GROUP",
        unit=MESSAGES,
        text="largest step back of an offset of this group",
        rests_on=CONSUMER_JOURNALS | BROKER_JOURNALS,
        is_floor=True,
        is_largest=True,
        excused_by=REQUESTS,
    ),
    Metric(
        name="own_offsets_overwritten",
        target="SLAVE",
        unit=TIMES,
        text="how often this slave replaced an offset that was committed to it by an older one of its master",
        definition="The last commit of the group in the queue had been sent to this slave since its last start, and had"
        " the replaced offset. A slave with `keep_newer_consumer_offsets`, as in the profile `hardened`, keeps it."
        " Slaves without this setting are not measured.",
        blind_to="groups and topics that a request reset or deleted, offsets that a later commit to another broker of"
        " the name moved back, and commits of clients that keep no journal",
        unknown_when="the config.toml of the slave cannot be read, single brokers had, or got while the cluster ran,"
        " another profile or this setting, or the journal of a consumer does not name the receiver of a commit",
        rests_on=CONSUMER_JOURNALS | BROKER_JOURNALS,
        is_floor=True,
        excused_by=REQUESTS,
    ),
)

CLOCKS: Final = (
    Metric(
        name="clock_disagreement",
        target="NODE",
        unit=SECONDS,
        text="largest contradiction between its times and those of others, or their own order",
        definition="A message delivered before it was sent or stored, stored before it was sent or after it was"
        " acknowledged, or an event written before the cluster's start or after the node's end. The node whose clock a"
        " fault set wrong is named, else the one that disagrees with more others. Also a journal whose times go back"
        " from one entry to later ones: the clock of its process was set back, or set right after it was ahead.",
        blind_to="differences below 1 s; times before and after a loss of records at a broker name; a node without"
        " messages that is wrong all the time, or is ahead by less than it lived on after its last event",
        unknown_when="no event of the node can be compared with another's",
        rests_on=PRODUCER_JOURNALS | CONSUMER_JOURNALS,
        is_floor=True,
    ),
)
