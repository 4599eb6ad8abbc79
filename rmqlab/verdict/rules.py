"""The rules of a default verdict: one table, by role and profile.

Each row names a metric, where it applies, and the effect of a value above zero. A row that violates makes the verdict
`violated`. A row that warns adds a warning, which is printed beside the verdict and does not change it.
"""

import enum
from typing import Final

import attrs

ASYNC_MASTER: Final = "ASYNC_MASTER"
SYNC_MASTER: Final = "SYNC_MASTER"
ROLES: Final = (ASYNC_MASTER, SYNC_MASTER)
HARDENED: Final = "hardened"
PROFILES: Final = ("4.9", HARDENED)


class Effect(enum.StrEnum):
    """Effect of a value above zero on the verdict."""

    VIOLATES = "violates"
    WARNS = "warns"


class Groups(enum.StrEnum):
    """Consumer groups that a row of a metric with the target GROUP applies to."""

    ANY = "any"
    ORDERLY = "orderly"
    CONCURRENT = "concurrent"


@attrs.frozen(kw_only=True)
class VerdictRule:
    """One row of the table."""

    metric: str
    """Name without target or class: the row applies to each target that was measured."""
    effect: Effect
    because: str
    """Why a value above zero breaks a guarantee of RocketMQ, or does not."""
    source: str
    """Source of the rule: a section of docs/protocol, a scenario, or an issue."""
    roles: tuple[str, ...] = ROLES
    profiles: tuple[str, ...] = PROFILES
    groups: Groups = Groups.ANY
    is_needed: bool = True
    """True if the verdict is `unknown` while this metric is. Only violating rows can be needed."""


VERDICT_RULES: Final = (
    VerdictRule(
        metric="lost",
        effect=Effect.VIOLATES,
        because="An acknowledged message must be in some store.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="divergence",
        effect=Effect.VIOLATES,
        because="The log of a slave, or of a former master, must have the bytes of the master's.",
        source="store-and-ha section 4.3",
    ),
    VerdictRule(
        metric="unreplicated",
        effect=Effect.VIOLATES,
        roles=(SYNC_MASTER,),
        because="A SYNC_MASTER must return SEND_OK only when a slave has the message.",
        source="store-and-ha section 4.7",
    ),
    VerdictRule(
        metric="order.stored",
        effect=Effect.VIOLATES,
        because="A queue must keep the order of sends that follow each other.",
        source="store-and-ha section 2.6",
        is_needed=False,
    ),
    VerdictRule(
        metric="order.delivered",
        effect=Effect.VIOLATES,
        groups=Groups.ORDERLY,
        because="An orderly consumer must receive a queue in its order.",
        source="broker-requests section 3.10",
        is_needed=False,
    ),
    VerdictRule(
        metric="order.delivered",
        effect=Effect.WARNS,
        groups=Groups.CONCURRENT,
        because="Concurrent consumers do not keep the order of a queue.",
        source="broker-requests section 3.10",
    ),
    VerdictRule(
        metric="own_offsets_overwritten",
        effect=Effect.VIOLATES,
        profiles=(HARDENED,),
        because="A slave keeps the offsets that consumers committed to it until its master has them.",
        source="rmq#1094",
    ),
    VerdictRule(
        metric="offset_rollbacks",
        effect=Effect.WARNS,
        profiles=(HARDENED,),
        because="A commit that arrives late, and a consumer that continues at a slave, move offsets back.",
        source="limits of the hardened profile",
    ),
    VerdictRule(
        metric="offset_rollbacks",
        effect=Effect.WARNS,
        profiles=("4.9",),
        because="4.9.8 moves offsets back when a slave syncs with a master that returned.",
        source="scenario offset-rollback",
    ),
    VerdictRule(
        metric="offset_file_behind",
        effect=Effect.WARNS,
        because="A broker saves offsets every 5 s. After a restart consumers receive some messages again.",
        source="store-and-ha section 5.4",
    ),
    VerdictRule(
        metric="duplicates.unexplained",
        effect=Effect.WARNS,
        because="RocketMQ delivers at least once, but each repetition must have a cause.",
        source="definition of the metric",
    ),
    VerdictRule(
        metric="corrupt",
        effect=Effect.WARNS,
        because="A record that no store can read any more counts as lost. Others are safe in another store.",
        source="store-and-ha section 2.1",
    ),
    VerdictRule(
        metric="dangling",
        effect=Effect.WARNS,
        because="Consumers do not receive a message whose queue entry is wrong.",
        source="store-and-ha section 3.1",
    ),
    VerdictRule(
        metric="unqueued",
        effect=Effect.WARNS,
        because="Consumers do not receive a message that no queue entry points at.",
        source="store-and-ha section 3.1",
    ),
    VerdictRule(
        metric="unindexed",
        effect=Effect.WARNS,
        because="Queries by key and by unique id do not find the message.",
        source="store-and-ha section 3.3",
    ),
    VerdictRule(
        metric="delivered_unstored",
        effect=Effect.WARNS,
        because="A consumer received a message that was lost afterwards.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="topics_missing",
        effect=Effect.WARNS,
        because="A broker that starts without a topic's configuration refuses pulls of it.",
        source="store-and-ha section 5.4",
    ),
    VerdictRule(
        metric="groups_missing",
        effect=Effect.WARNS,
        because="A broker that starts without a group's configuration creates it with defaults.",
        source="store-and-ha section 5.4",
    ),
    VerdictRule(
        metric="offset_file_ahead",
        effect=Effect.WARNS,
        because="A group whose offset is beyond its queue is corrected, and may skip messages.",
        source="broker-requests section 2.4",
    ),
    VerdictRule(
        metric="delay_offset_behind",
        effect=Effect.WARNS,
        because="Delayed messages are delivered again.",
        source="store-and-ha section 5.4",
    ),
    VerdictRule(
        metric="delay_offset_ahead",
        effect=Effect.WARNS,
        because="A broker that starts sets it to the queue's end, and skips delayed messages that it has not"
        " delivered.",
        source="store-and-ha section 7.2",
    ),
    VerdictRule(
        metric="stored_twice",
        effect=Effect.WARNS,
        because="A client that retries stores a message twice if only the response was lost.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="place_disagreement",
        effect=Effect.WARNS,
        because="An acknowledgement and a delivery must name the queue and offset of the record.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="content_disagreement",
        effect=Effect.VIOLATES,
        is_needed=False,
        because="A broker must store body, flag, keys and tags as the producer sent them.",
        source="store-and-ha section 2.1",
    ),
    VerdictRule(
        metric="origin_disagreement",
        effect=Effect.WARNS,
        because="A broker stores when and where a message was created.",
        source="store-and-ha section 2.1",
    ),
    VerdictRule(
        metric="header_disagreement",
        effect=Effect.WARNS,
        because="The header of a record follows from its send, its broker and its retries.",
        source="store-and-ha section 2.1",
    ),
    VerdictRule(
        metric="stored_uncommitted",
        effect=Effect.VIOLATES,
        is_needed=False,
        because="Consumers must not receive a half message that its producer did not commit.",
        source="store-and-ha section 7.1",
    ),
    VerdictRule(
        metric="delivered_early",
        effect=Effect.WARNS,
        because="A broker stores a delayed message in its own topic when it is due, or later.",
        source="store-and-ha section 7.2",
    ),
    VerdictRule(
        metric="overdue",
        effect=Effect.WARNS,
        because="Consumers do not receive a message that its broker holds back.",
        source="store-and-ha section 7.2",
    ),
    VerdictRule(
        metric="store_time_disagreement",
        effect=Effect.WARNS,
        because="A broker stores messages one after the other, so the store times of its log do not go back.",
        source="store-and-ha section 2.6",
    ),
    VerdictRule(
        metric="stored.refused",
        effect=Effect.WARNS,
        because="The reply said that the message is not stored.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="clock_disagreement",
        effect=Effect.WARNS,
        because="Times of this node, and durations across nodes, are not reliable.",
        source="definition of the metric",
    ),
)
