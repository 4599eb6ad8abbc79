"""Maps with queues as keys, which are read as JSON."""

import pytest

from rmqlab.remoting.bodies.offset import ConsumeStats, ConsumeStatsList, OffsetWrapper
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.fastjson import FastJsonError, parse_dialect, parse_fastjson
from rmqlab.remoting.frame import MAX_FRAME

KEY = b'{"brokerName":"b","queueId":1,"topic":"T"}'
PROGRESS = b'{"brokerOffset":9,"consumerOffset":7,"lastTimestamp":1764300000000}'


def test_a_reply_as_long_as_a_frame_is_read() -> None:
    """Replies to request 317 of more than 42,000 queues were rejected."""
    pairs = [
        b'{"brokerName":"broker-a","queueId":%d,"topic":"T"}:%b' % (number, PROGRESS)
        for number in range(MAX_FRAME // (len(KEY) + len(PROGRESS) + 16))
    ]
    reply = b'{"brokerAddr":"a:1","consumeStatsList":[{"G":[{"offsetTable":{%b}}]}],"totalDiff":2}' % b",".join(pairs)
    assert 0.9 * MAX_FRAME < len(reply) <= MAX_FRAME
    (groups,) = ConsumeStatsList.decode(reply).consume_stats_list
    (stats,) = groups["G"]
    assert len(stats.offset_table) == len(pairs) > 100_000
    queue = MessageQueue(broker_name="broker-a", queue_id=99_999, topic="T")
    assert stats.offset_table[queue] == OffsetWrapper(
        broker_offset=9, consumer_offset=7, last_timestamp=1_764_300_000_000
    )


@pytest.mark.parametrize("name", ["b", "", 'a"b', "a\\", "\0b\0001\0T", KEY.decode() + ":1", "\u00e4", "{", "}:"])
def test_any_name_of_a_topic_is_read(name: str) -> None:
    queues = [MessageQueue(broker_name="b", queue_id=number, topic=topic) for number, topic in ((0, name), (-1, "T"))]
    stats = ConsumeStats(offset_table=dict.fromkeys(queues, OffsetWrapper(broker_offset=3)))
    assert ConsumeStats.decode(stats.encode()) == stats


@pytest.mark.parametrize(
    "raw",
    [
        b"{%b:1}" % KEY,
        b'{%b:{},"a":[{%b:[{%b:2}]}]}' % (KEY, KEY, KEY),
        b'{"x":%b}' % KEY,
        b'{%b:1,"\\u0000b\\u00001\\u0000T":2}' % KEY,
        b"{%b:1,'%b:':2}" % (KEY, KEY),
        b"{%b:1,a:2}" % KEY,
        b'{"a":"{%b:1}"}' % KEY.replace(b'"', b'\\"'),
    ],
)
def test_the_result_is_that_of_the_dialect(raw: bytes) -> None:
    assert parse_fastjson(raw) == parse_dialect(raw)


@pytest.mark.parametrize("raw", [b'{"a":"%b:1"}' % KEY, b'{"a":%b:1}' % KEY, b"[%b:1]" % KEY])
def test_a_queue_at_a_wrong_place_is_rejected(raw: bytes) -> None:
    with pytest.raises(FastJsonError):
        parse_fastjson(raw)
