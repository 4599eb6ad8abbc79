"""Queue locks (broker-requests section 3.10, #46)."""

import json

import pytest

from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.bodies.queue import LockBatchResponseBody
from rmqlab.remoting.codes import RequestCode, ResponseCode

QUEUES = [{"brokerName": "broker-a", "queueId": queue_id, "topic": "T"} for queue_id in range(3)]


def body(client_id: str, *queue_ids: int) -> bytes:
    queues = [QUEUES[queue_id] for queue_id in queue_ids]
    return json.dumps({"clientId": client_id, "consumerGroup": "g", "mqSet": queues}).encode()


def lock(talk: TalkingBroker, client_id: str, *queue_ids: int) -> list[int]:
    reply = talk.ask(RequestCode.LOCK_BATCH_MQ, None, body(client_id, *queue_ids))
    assert (reply.code, reply.raw_fields) == (ResponseCode.SUCCESS, None)
    return [queue.queue_id for queue in LockBatchResponseBody.decode(reply.body).lock_ok_mq_set]


def test_free_and_own_locks_are_granted_those_of_others_not(talk: TalkingBroker) -> None:
    """broker-requests#46."""
    assert lock(talk, "a", 0, 1) == [0, 1]
    assert lock(talk, "b", 1, 2) == [2]
    assert lock(talk, "a", 0, 1, 2) == [0, 1]


def test_without_granted_locks_the_list_is_empty(talk: TalkingBroker) -> None:
    """broker-requests#46."""
    lock(talk, "a", 0)
    assert talk.ask(RequestCode.LOCK_BATCH_MQ, None, body("b", 0)).body == b'{"lockOKMQSet":[]}'


@pytest.mark.parametrize(("seconds", "granted"), [(60, []), (60.1, [0])])
def test_a_lock_that_was_not_renewed_for_60_seconds_is_free(
    talk: TalkingBroker, seconds: float, granted: list[int]
) -> None:
    """broker-requests#46."""
    lock(talk, "a", 0)
    talk.clock.advance(50)
    lock(talk, "a", 0)
    talk.clock.advance(seconds)
    assert lock(talk, "b", 0) == granted


@pytest.mark.parametrize("oneway", [False, True])
def test_only_own_locks_are_given_back(talk: TalkingBroker, *, oneway: bool) -> None:
    """broker-requests#46: unlocking may be oneway."""
    lock(talk, "a", 0)
    lock(talk, "b", 1)
    replies = talk.exchange(RequestCode.UNLOCK_BATCH_MQ, None, body("a", 0, 1), oneway=oneway)
    assert [reply.code for reply in replies] == ([] if oneway else [ResponseCode.SUCCESS])
    assert lock(talk, "c", 0, 1) == [0]


def test_groups_lock_apart(talk: TalkingBroker) -> None:
    lock(talk, "a", 0)
    other = json.loads(body("b", 0)) | {"consumerGroup": "h"}
    reply = talk.ask(RequestCode.LOCK_BATCH_MQ, None, json.dumps(other).encode())
    assert len(LockBatchResponseBody.decode(reply.body).lock_ok_mq_set) == 1


def test_a_queue_named_twice_by_reference_is_understood(talk: TalkingBroker) -> None:
    """fastjson writes repeated instances as references (broker-requests section 0.3)."""
    text = body("a", 0)[:-2] + b',{"$ref":"$.mqSet[0]"}]}'
    assert talk.ask(RequestCode.LOCK_BATCH_MQ, None, text).code == ResponseCode.SUCCESS


def test_a_slave_keeps_locks_of_its_own(slave: TalkingBroker) -> None:
    """broker-requests section 7."""
    assert lock(slave, "a", 0) == [0]
