"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ of orderly consumers.

Source: broker-requests section 3.10.
"""

from rmqlab.broker.config import MAX_QUEUES
from rmqlab.broker.state import Broker
from rmqlab.broker.tables.locks import LockedQueue
from rmqlab.remoting.bodies.queue import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueue,
    UnlockBatchRequestBody,
)
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route


def lock_batch_mq(broker: Broker, _header: None, request: Request) -> Reply:
    """Lock the queues that are free, and return those (broker-requests#46)."""
    wanted = LockBatchRequestBody.decode(request.command.body)
    if len(wanted.mq_set) > MAX_QUEUES:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"a request locks at most {MAX_QUEUES} queues here")
    now = broker.now()
    queues = dict.fromkeys(wanted.mq_set)  # each once
    got = [queue for queue in queues if broker.locks.lock(_key(wanted.consumer_group, queue), wanted.client_id, now)]
    return Reply(body=LockBatchResponseBody(lock_ok_mq_set=got).encode())


def unlock_batch_mq(broker: Broker, _header: None, request: Request) -> Reply:
    """Release the client's locks. Those of other clients stay."""
    freed = UnlockBatchRequestBody.decode(request.command.body)
    for queue in freed.mq_set:
        broker.locks.unlock(_key(freed.consumer_group, queue), freed.client_id)
    return Reply()


def _key(group: str, queue: MessageQueue) -> LockedQueue:
    return LockedQueue(group, queue.topic, queue.broker_name, queue.queue_id)


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.LOCK_BATCH_MQ, None, lock_batch_mq),
    Route(RequestCode.UNLOCK_BATCH_MQ, None, unlock_batch_mq),
]
