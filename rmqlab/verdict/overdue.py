"""Rules about messages that a broker holds back for too long, for both judges.

A delayed message waits in SCHEDULE_TOPIC_XXXX until it is due, a half message in RMQ_SYS_TRANS_HALF_TOPIC until it is
committed or rolled back. Only a master ends these waits. 4.9.8 looks for due messages every 100 ms, first 1 s after its
start (ScheduleMessageService). It looks for half messages without an outcome once an interval, and stores each again
before it asks their producer (TransactionalMessageServiceImpl). Both go through a queue in its order, and save how far
they are: in delayOffset.json, and as a consumer offset of CID_RMQ_SYS_TRANS. They never return to what is before that.
"""

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from rmqlab.remoting.contentcrc import content_crc
from rmqlab.remoting.names import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_GROUP,
)
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.nodesettings import Settings
from rmqlab.verdict.roles import Roles

_BEGINS: Final = ("node_ready", "node_resumed", "member_role_changed")
_ENDS: Final = ("node_paused", "node_stopped", "node_killed", "node_crashed")
_LOSSES: Final = tuple(kind for kind in REMOVING_KINDS if kind != "file_deleted")
"""A deleted file is older than the messages that wait, or has them as well."""
SERVICE_KINDS: Final = (*_BEGINS, *_ENDS, *_LOSSES)
"""Kinds of the events that `last_services` needs."""
HOLDING_TOPICS: Final = (SCHEDULE_TOPIC, HALF_TOPIC)
HALF_ENDS: Final = (HALF_TOPIC, SCHEDULE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)
"""Topics of later records of a half message that end its wait: checked, committed with a delay, given up."""
WHAT: Final = "held back in a system topic beyond its time"
_TIMEOUT: Final = "transaction_time_out"
_INTERVAL: Final = "transaction_check_interval"
_DEFAULTS: Final = {_TIMEOUT: 6_000, _INTERVAL: 60_000}
"""Milliseconds; class BrokerConfig."""
_FIRST_DELIVERY: Final = 1_000
"""Milliseconds from a start to the first delivery of delayed messages."""
_NEVER: Final = -1
_OP_TAG: Final = "d"


@attrs.frozen(kw_only=True)
class Service:
    """The last time in which the last master of a broker name served.

    Without a break. Also what was overdue at its end.
    """

    node: str
    until: int
    """Its end, or that of the run, in ms."""
    latest_due: int
    """Delayed messages that were due then or earlier are overdue; below 0: none."""
    half_wait: int
    """Milliseconds in which a half message must have an outcome, or be stored again."""
    latest_half: int
    """The same of half messages, which are due at the end of `half_wait`."""
    lost_at: int
    """When the broker name last lost records, perhaps outcomes of the half messages before; below 0: never."""


def last_services(
    events: Iterable[tuple[int, str, str]],
    roles: Roles,
    ended_at: int,
    slack: int,
    settings: Mapping[str, Settings | None],
) -> Iterator[Service]:
    """Yield the service of the last acting master of each broker name.

    `events` are those of SERVICE_KINDS as (time, node, kind), in their order; without the stop of the whole cluster,
    which is after `ended_at`. `slack` are the milliseconds after which nothing is late any more.
    """
    since: dict[str, int] = {}
    until: dict[str, int] = {}
    lost_at: dict[str, int] = {}
    for at, node, kind in events:
        if kind in _BEGINS:
            since[node] = at
            until.pop(node, None)
        elif kind in _ENDS:
            until.setdefault(node, at)
        elif kind in _LOSSES:
            lost_at |= dict.fromkeys(roles.names_of(node), at)
    for broker in roles.brokers:
        *_, (node, _, replaced_at) = roles.masters_over_time(broker) or [("", 0, None)]
        if replaced_at is None and node in since:
            timeout, interval = (_millis(settings.get(node) or {}, key) for key in (_TIMEOUT, _INTERVAL))
            ends_at = until.get(node, ended_at)
            latest = ends_at - slack
            yield Service(
                node=node,
                until=ends_at,
                latest_due=latest if since[node] + _FIRST_DELIVERY <= latest else _NEVER,
                half_wait=timeout + interval,
                latest_half=latest if since[node] + interval <= latest else _NEVER,
                lost_at=lost_at.get(broker, _NEVER),
            )


def _millis(settings: Settings, key: str) -> int:
    value = settings.get(key)
    return value if isinstance(value, int) else _DEFAULTS[key]


def progress_of(delays: Mapping[int, int], consumers: Mapping[str, Mapping[int, int]]) -> Mapping[tuple[str, int], int]:
    """Return the saved progress in holding queues, by topic and queue id.

    `delays` are the offsets of delayOffset.json, `consumers` those of consumerOffset.json.
    """
    halves = consumers.get(f"{HALF_TOPIC}@{TRANSACTION_GROUP}", {})
    levels = {(SCHEDULE_TOPIC, level - 1): offset for level, offset in delays.items()}
    return levels | {(HALF_TOPIC, queue_id): offset for queue_id, offset in halves.items()}


def op_crc(half_offset: int) -> int:
    """Return the checksum of the record that ends the half message at an offset."""
    return content_crc(zlib.crc32(str(half_offset).encode()) & 0x7FFFFFFF, 0, "", _OP_TAG)


def why_unknown(topics: Collection[str], settings: Settings | None, unread_queues: str, conditions: Conditions) -> str:
    """Return why it is unknown when messages of a master are overdue.

    Empty if it is known.

    `topics` are the holding topics with messages that still wait. `unread_queues` is why its consume queues cannot be
    read, which have the due times.
    """
    if SCHEDULE_TOPIC in topics and unread_queues:
        return unread_queues
    if HALF_TOPIC not in topics:
        return ""
    if _DEFAULTS.keys() & conditions.changed_settings:
        return "brokers had different settings of transactions"
    return "its settings of transactions are unknown: config.toml cannot be read" if settings is None else ""


def at_known_brokers(
    found: Finding, doubts: Mapping[str, str], missing: Sequence[str], unread_brokers: Collection[str]
) -> Finding:
    """Return the finding without broker names that cannot be judged.

    `doubts` says why by broker name. `missing` says why messages that it counts may be in stores of `unread_brokers`
    that were not read.
    """
    why = [*(f"{broker}: {text}" for broker, text in sorted(doubts.items())), *missing]
    others = found.without({*doubts, *(unread_brokers if missing else ())})
    return others or found.withdrawn("; ".join(why)) if why else found
