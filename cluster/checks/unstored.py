"""Messages that a consumer received and that no store has.

They were lost after their delivery, or never stored. Messages that a broker deleted for their age do not count.
"""

from collections.abc import Iterator

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.events import Delivery
from rmqlab.cluster.checks.expiry import Expiry
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.possiblebrokers import possible_brokers
from rmqlab.verdict.catalogue import DELIVERED_UNSTORED, MESSAGES
from rmqlab.verdict.findings import Evidence, Finding, count_of, unknown, without_id

_METRIC = DELIVERED_UNSTORED.name


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the finding of `delivered_unstored`."""
    if not history.deliveries:
        yield unknown(_METRIC, MESSAGES, "nothing was delivered to a workload of the journal")
        return
    expiry = Expiry(history, stores)
    absent: dict[str, Delivery] = {}
    for delivery in history.deliveries:
        is_absent = delivery.message_id and delivery.message_id not in stores.by_message
        if is_absent and not expiry.may_have(delivery.queue, delivery.offset, _created_at(delivery, history)):
            absent.setdefault(delivery.message_id, delivery)
    found = count_of(
        _METRIC,
        MESSAGES,
        list(absent.values()),
        lambda delivery: _evidence(delivery, history),
        message_ids=list(absent),
        brokers_of=lambda delivery: possible_brokers(delivery.message_id, history),
    )
    missing = stores.missing_of(found.brokers, history)
    if absent and not stores.nodes:
        yield unknown(_METRIC, MESSAGES, "no store was given")
    elif missing:
        yield found.without(stores.unread_brokers(history)) or unknown(_METRIC, MESSAGES, "; ".join(missing))
    else:
        nameless = sum(not delivery.message_id for delivery in history.deliveries)
        yield found.as_floor(without_id(nameless)) if nameless else found


def _created_at(delivery: Delivery, history: History) -> int:
    """Return the begin of the message's first send, in ms; 0 without a send."""
    sends = (one for one in history.by_message[delivery.message_id] if one.kind == "sent")
    return min((int(one.fields.get("began_at") or one.at_millis) for one in sends), default=0)


def _evidence(delivery: Delivery, history: History) -> Evidence:
    return Evidence(
        text=f"{delivery.group} received it from {delivery.queue} offset {delivery.offset} at {delivery.node};"
        " no store has it",
        at_millis=delivery.at,
        message_ids=(delivery.message_id,),
        entries=history.around(delivery.at, delivery.message_id),
    )
