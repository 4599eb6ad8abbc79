"""Conditions for the reply to a send: flushed to disk, copied to slaves.

The role, the flush type and `in_sync_replicas` decide that for all messages. With `obey_min_copies`, a message can
demand more copies (`MIN_COPIES`), of an asynchronous master too, but never fewer.
"""

from collections.abc import Mapping

from rmqlab.broker.state import Broker
from rmqlab.broker.waits.pending_acks import WaitingSend
from rmqlab.remoting.batch import ReceivedBatch
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.message import PROPERTY_WAIT, parse_properties
from rmqlab.remoting.min_copies import PROPERTY_MIN_COPIES, min_copies_of
from rmqlab.runtime.net.dispatch import Refusal
from rmqlab.store.results import PutResult, PutStatus

MASTER_ALONE = 1
"""Number of copies without a slave."""
_BATCH_NEEDLE = PROPERTY_MIN_COPIES.encode()


def waits_for_store(properties: Mapping[str, str]) -> bool:
    """Return False if the sender waits for the master's log only (WAIT=false)."""
    return properties.get(PROPERTY_WAIT, "true").lower() == "true"


def demanded_copies(broker: Broker, properties: Mapping[str, str]) -> int:
    """Return the copies that a message demands; 0 without demand or switch.

    Refusal if the number is invalid.
    """
    if not broker.config.obey_min_copies:
        return 0
    try:
        return min_copies_of(properties)
    except ValueError as exc:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, str(exc)) from None


def stored_demand(broker: Broker, properties: Mapping[str, str]) -> int:
    """Return the copies that a stored message demands.

    An invalid number counts as 0: the switch was off when the message was stored, and refusing it now would lose it.
    """
    try:
        return demanded_copies(broker, properties)
    except Refusal:
        return 0


def copies_demanded_by_batch(broker: Broker, properties: Mapping[str, str], batch: ReceivedBatch) -> int:
    """Return the greatest demand of a batch's messages and of its own properties.

    Its own properties become those of each message. A batch has one outcome, so the message with the greatest demand
    decides it. Refusal as `demanded_copies`.
    """
    if not broker.config.obey_min_copies:
        return 0
    texts = [text.decode("utf-8", "replace") for text in batch.decoded().properties if _BATCH_NEEDLE in text]
    return max(demanded_copies(broker, each) for each in (properties, *map(parse_properties, texts)))


def wait_for_store(broker: Broker, send: WaitingSend, result: PutResult, min_copies: int, *, is_asked: bool) -> None:
    """Start the waits of a stored message.

    `is_asked`: the sender waits for more than the master's log. A DLedger group decides in any case (dledger#54).
    """
    if result.decision is not None:
        send.waits += 1
        result.decision.when_made(send.settle)
    elif is_asked:
        wait_for_copies(broker, send, result.end_offset, min_copies)


def wait_for_copies(broker: Broker, send: WaitingSend, end_offset: int, min_copies: int) -> None:
    """Start the waits for disk and slaves, side by side (store-ha#56)."""
    now = broker.now()
    if broker.store.config.flush_disk_type == "SYNC_FLUSH":
        broker.flush_waits.add(end_offset, send, now=now)
    copies = _needed_copies(broker, min_copies)
    if copies == MASTER_ALONE:
        return
    if broker.ha_master.is_slave_ok(end_offset, copies):
        broker.slave_waits.add(end_offset, send, broker.ha_master, copies, now=now)
    else:
        send.status, send.cause = PutStatus.SLAVE_NOT_AVAILABLE, broker.ha_master.explain(end_offset, copies)


def _needed_copies(broker: Broker, min_copies: int) -> int:
    """Return how many logs must have the message, as `CopyCounter` counts them."""
    configured = broker.ha_master.settings.in_sync_replicas if broker.config.is_sync_master else MASTER_ALONE
    return max(configured, min_copies) if min_copies > MASTER_ALONE else configured
