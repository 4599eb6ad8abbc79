"""Messages acknowledged with SEND_OK by a SYNC_MASTER but missing in its slaves.

Slaves are those of the time of the send. If records of a slave were removed after the send (store wiped, power lost,
files deleted, log truncated), their absence is no evidence: these messages are reported in the text, and do not count.
"""

import bisect
import operator
from collections.abc import Iterator, Sequence

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.events import Send
from rmqlab.cluster.checks.history import History
from rmqlab.verdict.catalogue import MESSAGES
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.findings import Evidence, Finding, count_of, unknown
from rmqlab.verdict.rules import SYNC_MASTER


def judge(history: History, stores: Stores, role: str) -> Iterator[Finding]:
    """Yield `unreplicated BROKER` for SYNC_MASTER broker names that ever had slaves.

    Without a recorded role, the masters may have been SYNC_MASTERs.
    """
    for broker in sorted(history.roles.brokers) if role in ("", SYNC_MASTER) else ():
        if any(slaves for _, slaves in history.roles.slaves_over_time(broker)):
            yield _judge_broker(history, stores, broker)


def _judge_broker(history: History, stores: Stores, broker: str) -> Finding:
    metric = f"unreplicated {broker}"
    unread = stores.missing_of({broker}, history)
    if unread:
        return unknown(metric, MESSAGES, "; ".join(unread))
    sends = [send for send in history.sends if _is_replicated(send, broker)]
    absent = list(_absent(history, stores, broker, sends))
    # By message id: a message that was sent several times counts once.
    unexplained = {key: (key, send) for key, send, is_removed in absent if not is_removed}
    explained = len({key for key, _, _ in absent} - unexplained.keys())
    found = list(unexplained.values())
    return count_of(
        metric,
        MESSAGES,
        found,
        lambda named: _as_evidence(*named, history),
        text=_of_all(len({key for send in sends for key in send.ids}), explained),
        message_ids=[key for key, _ in found],
    )


def _of_all(messages: int, removed: int) -> str:
    """Count the judged messages, and those that a slave may have lost later."""
    later = f"; {removed} more {'was' if removed == 1 else 'were'} removed from a slave later" if removed else ""
    return f"of {messages} {'message' if messages == 1 else 'messages'}{later}"


def _absent(history: History, stores: Stores, broker: str, sends: Sequence[Send]) -> Iterator[tuple[str, Send, bool]]:
    """Yield the messages that no slave of the time of its send has.

    The flag says whether records of such a slave were removed later.
    """
    over_time = history.roles.slaves_over_time(broker)
    slaves = {slave for _, found in over_time for slave in found}
    held = {slave: {copy.message_id for copy in stores.nodes[slave].copies} for slave in slaves}
    removed_at = {slave: _last_removal(history, slave) for slave in slaves}
    for send in sends:
        own = over_time[bisect.bisect_right(over_time, send.ended_at, key=operator.itemgetter(0)) - 1][1]
        for key in send.ids:
            if not any(key in held[slave] for slave in own):
                yield key, send, any(send.ended_at <= removed_at[slave] for slave in own)


def _is_replicated(send: Send, broker: str) -> bool:
    return send.outcome == "SEND_OK" and send.broker == broker


def _last_removal(history: History, node: str) -> int:
    return max((entry.at_millis for entry in history.of_node(node, *REMOVING_KINDS)), default=-1)


def _as_evidence(message_id: str, send: Send, history: History) -> Evidence:
    return Evidence(
        text=f"SEND_OK from {send.queue} offset {send.offset}, and in no slave's store",
        at_millis=send.ended_at,
        message_ids=(message_id,),
        entries=history.around(send.ended_at, message_id),
    )
