"""Messages that a SYNC_MASTER acknowledged with SEND_OK and that none of its slaves has.

If records of a slave were removed after the send (store wiped, power lost, files deleted, log truncated), their absence
proves nothing: these messages are mentioned, and do not count.
"""

from collections.abc import Iterator, Sequence

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.history import History, Member, Send
from rmqlab.verdict.catalogue import MESSAGES
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.findings import Evidence, Finding, count_of, unknown
from rmqlab.verdict.grounds import SYNC_MASTER


def judge(history: History, stores: Stores, role: str) -> Iterator[Finding]:
    """Yield `unreplicated BROKER` for each broker name of a SYNC_MASTER cluster that has slaves."""
    for broker in history.broker_names if role == SYNC_MASTER else ():
        slaves = [member for member in history.brokers(broker) if member.broker_id]
        if slaves:
            yield _judge_broker(history, stores, broker, slaves)


def _judge_broker(history: History, stores: Stores, broker: str, slaves: Sequence[Member]) -> Finding:
    metric = f"unreplicated {broker}"
    unread = stores.missing_of({broker}, history)
    if unread:
        return unknown(metric, MESSAGES, "; ".join(unread))
    held = {copy.message_id for slave in slaves for copy in stores.nodes[slave.name].copies}
    replicated = [send for send in history.sends if _is_replicated(send, broker)]
    absent = [(key, send) for send in replicated for key in send.ids if key not in held]
    removed_at = max((_last_removal(history, slave.name) for slave in slaves), default=-1)
    found = [(key, send) for key, send in absent if send.ended_at > removed_at]
    explained = len(absent) - len(found)
    return count_of(
        metric,
        MESSAGES,
        found,
        lambda named: _where_it_was(*named, history),
        says=f"of {sum(len(send.ids) for send in replicated)} messages; {explained} more were removed from a slave later",
        message_ids=[key for key, _ in found],
    )


def _is_replicated(send: Send, broker: str) -> bool:
    return send.outcome == "SEND_OK" and send.queue is not None and send.queue.broker == broker


def _last_removal(history: History, node: str) -> int:
    return max((entry.at_millis for entry in history.of_node(node, *REMOVING_KINDS)), default=-1)


def _where_it_was(message_id: str, send: Send, history: History) -> Evidence:
    return Evidence(
        says=f"answered SEND_OK by {send.queue} offset {send.offset}, and in no slave's store",
        at_millis=send.ended_at,
        message_ids=(message_id,),
        entries=history.around(send.ended_at, message_id),
    )
