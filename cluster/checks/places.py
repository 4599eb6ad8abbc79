"""Messages that journals and stores place at different queues or offsets.

A message that was sent once has one place in its topic, and each copy of the record states it. Messages with failed
attempts may have several, and messages that a consumer sent back are stored again under the group's retry topic. A
broker that lost the record of a delayed or half message stores it again at another place, so places of brokers whose
logs may lack records are not compared.
"""

import collections
from collections.abc import Collection, Iterator, Mapping

import attrs

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.events import Delivery, Queue, Send
from rmqlab.cluster.checks.history import History
from rmqlab.remoting.names import RESENT_PREFIXES, SCHEDULE_TOPIC, is_system_topic
from rmqlab.verdict.catalogue import PLACE_DISAGREEMENT
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.findings import Evidence, Finding, count_of, listed, unknown

_Place = tuple[Queue, int]


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the finding of `catalogue.PLACE_DISAGREEMENT`."""
    metric, unit = PLACE_DISAGREEMENT.name, PLACE_DISAGREEMENT.unit
    if not history.sends:
        yield unknown(metric, unit, "no workload of the journal sent anything")
        return
    if not stores.nodes:
        yield unknown(metric, unit, "no store was given")
        return
    if nameless := [node for node in stores.nodes if node not in history.members]:
        yield unknown(metric, unit, f"no event has the broker name of {', '.join(nameless)}")
        return
    deliveries: dict[str, list[Delivery]] = collections.defaultdict(list)
    for delivery in history.deliveries:
        deliveries[delivery.message_id].append(delivery)
    found = dict(_find(history, stores, deliveries))

    def as_evidence(message_id: str) -> Evidence:
        where = listed(f"{queue} offset {offset}" for queue, offset in stores.places_in_order(message_id))
        return Evidence(
            text=f"{message_id}: {found[message_id]}; it is stored at {where}",
            at_millis=min(copy.stored_at for copy in stores.by_message[message_id]),
            message_ids=(message_id,),
            entries=history.about(message_id),
        )

    yield count_of(
        metric,
        unit,
        list(found),
        as_evidence,
        is_at_least=bool(stores.unread),
        message_ids=list(found),
        brokers_of=lambda message_id: stores.brokers_of(message_id, history),
    )


def _find(history: History, stores: Stores, deliveries: Mapping[str, list[Delivery]]) -> Iterator[tuple[str, str]]:
    """Yield each such message, with the journal entry that disagrees."""
    incomplete = {entry.node for entry in history.of_kind(*REMOVING_KINDS)} | stores.unread.keys()
    uncertain = {history.broker_of(node) for node in incomplete} | history.roles.renamed
    sent = collections.Counter(message_id for send in history.sends for message_id in send.ids)
    failed = {failure.message_id for failure in history.failures}
    for send in history.sends:
        for number, message_id in enumerate(send.ids):
            if sent[message_id] > 1 or message_id in failed or message_id not in stores.by_message:
                continue
            places = stores.places(message_id)
            known = [one for one in deliveries.get(message_id, ()) if one.queue.broker not in uncertain]
            text = _delivered_elsewhere(send, known, places)
            if send.place is not None and send.place[0].broker not in uncertain:
                text = _acknowledged_elsewhere(send, number, places) or text
            if text:
                yield message_id, text


def _acknowledged_elsewhere(send: Send, number: int, places: Collection[_Place]) -> str:
    """Describe an acknowledged place without the record; empty if the record is there."""
    if not send.is_acknowledged or send.place is None:
        return ""
    queue, offset = send.place[0], send.place[1] + number
    topics = {place[0].topic for place in places}
    # Messages that a consumer sends back wait in the topic of delayed messages before they are in its retry topic.
    own = [topic for topic in topics if not topic.startswith(RESENT_PREFIXES) and not is_system_topic(topic)]
    is_elsewhere = queue.topic == send.topic and bool(own)
    is_there = any(_holds(queue, place) and at == offset for place, at in places)
    if is_there or not (queue.topic in topics or is_elsewhere):
        return ""
    return f"{send.node} recorded an acknowledgement from {queue} offset {offset}"


def _holds(acknowledged: Queue, stored: Queue) -> bool:
    """Return True if a queue may hold a message acknowledged in another.

    A broker with fewer delay levels than the producer asked for holds the message at its last one.
    """
    is_lower = acknowledged.topic == SCHEDULE_TOPIC and stored.queue_id < acknowledged.queue_id
    return stored == (attrs.evolve(acknowledged, queue_id=stored.queue_id) if is_lower else acknowledged)


def _delivered_elsewhere(send: Send, deliveries: Collection[Delivery], places: Collection[_Place]) -> str:
    """Describe a delivery from a place without the record; empty if there is none."""
    topics = {place[0].topic for place in places}
    for one in deliveries:
        is_of_topic = one.queue.topic in topics or one.queue.topic != send.topic
        if is_of_topic and not one.reconsume_times and (one.queue, one.offset) not in places:
            return f"{one.node} received it from {one.queue} offset {one.offset}"
    return ""
