"""The running info of a consumer."""

import pytest

from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.runtime import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)


def test_names_that_java_spells_its_own_way() -> None:
    """broker-requests 6.3"""
    queue = ProcessQueueInfo(dropped=True, cached_msg_size_in_mib=2)
    assert b'"cachedMsgSizeInMiB":2' in queue.encode()
    assert b'"droped":true' in queue.encode()
    status = ConsumeStatus(consume_ok_tps=1.5, consume_failed_tps=0.5, consume_rt=2.0, pull_rt=3.0, pull_tps=4.0)
    assert status.encode() == (
        b'{"consumeFailedMsgs":0,"consumeFailedTPS":0.5,"consumeOKTPS":1.5,"consumeRT":2.0,"pullRT":3.0,"pullTPS":4.0}'
    )


def test_a_go_clients_running_info_is_read() -> None:
    """broker-requests#59"""
    read = ConsumerRunningInfo.decode(
        b'{"mqTable":{{"topic":"T","brokerName":"b","queueId":0}:{"commitOffset":4,"dropped":true}},'
        b'"properties":{"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY"},"statusTable":{"T":{"pullTPS":1}},"subscriptionSet":[]}'
    )
    assert read.mq_table == {MessageQueue(topic="T", broker_name="b", queue_id=0): ProcessQueueInfo(commit_offset=4)}
    assert read.status_table == {"T": ConsumeStatus(pull_tps=1.0)}


@pytest.mark.parametrize(
    ("wire", "result"),
    [("1", CMResult.CR_LATER), ('"CR_LATER"', CMResult.CR_LATER), ("6", None), ('"CR_NONE"', None)],
)
def test_a_result_is_decoded_from_its_name_or_ordinal(wire: str, result: CMResult | None) -> None:
    """broker-requests#59"""
    assert ConsumeMessageDirectlyResult.decode(b'{"consumeResult":%b}' % wire.encode()).consume_result is result
