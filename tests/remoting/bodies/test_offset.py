"""Offsets of queues, in the forms that each client reads."""

import pytest

from rmqlab.remoting.bodies.offset import (
    ConsumerOffsets,
    ConsumeStats,
    ConsumeStatsList,
    DelayOffsets,
    GetConsumerStatusBody,
    OffsetWrapper,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.topic import TopicOffset, TopicStatsTable

QUEUE = MessageQueue(broker_name="b", queue_id=1, topic="T")
KEY = b'{"brokerName":"b","queueId":1,"topic":"T"}'


def test_maps_by_queue_have_the_queue_as_key() -> None:
    """broker-requests#54: 202, 208, 317, 222, 223"""
    progress = OffsetWrapper(broker_offset=3, consumer_offset=2, last_timestamp=9)
    stats = ConsumeStats(offset_table={QUEUE: progress})
    progress_wire = b'{"brokerOffset":3,"consumerOffset":2,"lastTimestamp":9}'
    stats_wire = b'{"consumeTps":0.0,"offsetTable":{' + KEY + b":" + progress_wire + b"}}"
    assert stats.encode() == stats_wire
    every = ConsumeStatsList(broker_addr="a:1", consume_stats_list=[{"G": [stats]}, {"H": []}], total_diff=1)
    assert every.encode() == (
        b'{"brokerAddr":"a:1","consumeStatsList":[{"G":[' + stats_wire + b']},{"H":[]}],"totalDiff":1}'
    )
    bounds = TopicStatsTable(offset_table={QUEUE: TopicOffset(last_update_timestamp=5, max_offset=3)})
    bounds_wire = b'{"lastUpdateTimestamp":5,"maxOffset":3,"minOffset":0}'
    assert bounds.encode() == b'{"offsetTable":{' + KEY + b":" + bounds_wire + b"}}"
    status = GetConsumerStatusBody(consumer_table={"client": {QUEUE: 4}})
    assert status.encode() == b'{"consumerTable":{"client":{' + KEY + b':4}},"messageQueueTable":{}}'


def test_maps_by_number_have_bare_digits_as_keys() -> None:
    """broker-requests#54: 43, 45, 308"""
    assert ConsumerOffsets(offset_table={"T@G": {0: 5}}).encode() == b'{"offsetTable":{"T@G":{0:5}}}'
    assert DelayOffsets(offset_table={3: 2}).encode() == b'{"offsetTable":{3:2}}'
    assert QueryCorrectionOffsetBody(correction_offsets={0: 5}).encode() == b'{"correctionOffsets":{0:5}}'


def test_a_reset_is_a_list_for_cpp_and_read_in_both_forms() -> None:
    """broker-requests#58"""
    body = ResetOffsetBody(offset_table={QUEUE: 7})
    wire = b'{"offsetTable":[{"brokerName":"b","offset":7,"queueId":1,"topic":"T"}]}'
    assert ResetOffsetBodyForC.of(body).encode() == wire
    assert ResetOffsetBody.decode(wire) == ResetOffsetBody.decode(body.encode()) == body
    assert ResetOffsetBody.decode(b'{"offsetTable":{}}') == ResetOffsetBody.decode(b'{"offsetTable":[]}')


@pytest.mark.parametrize(
    "table",
    [{}, {"T@g": {0: 1, 5: -7}}, {'a":{1:2}@g': {0: 1}}, {"x\\@g,1:2": {3: 4}}, {'a\\":{1:2}': {1: 2}, "b": {}}],
)
def test_offsets_are_read_in_each_form_whatever_their_names(table: dict[str, dict[int, int]]) -> None:
    body = ConsumerOffsets(offset_table=table)
    for form in (body.encode(), body.encode_pretty(), body.encode_standard()):
        assert ConsumerOffsets.decode(form) == body
