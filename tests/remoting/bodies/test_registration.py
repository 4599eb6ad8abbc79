"""The three forms of a registration's body."""

import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.remoting.bodies.registration import (
    MAX_INFLATED,
    MAX_TOPICS,
    RegisterBrokerBody,
    body_crc32,
    decode_registration,
    encode_compressed,
)
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import VERSION
from rmqlab.remoting.fastjson import BODY_LIMITS

NAMES = st.text(alphabet="%|_-abcXYZ019", min_size=1, max_size=12)
COUNTS = st.integers(0, 2**31 - 1)
TOPICS = st.builds(TopicConfig, topic_name=NAMES, read_queue_nums=COUNTS, write_queue_nums=COUNTS, perm=COUNTS)
REGISTRATIONS = st.builds(
    lambda version, topics, filter_servers: RegisterBrokerBody(
        filter_server_list=filter_servers,
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
            data_version=version, topic_config_table={topic.topic_name: topic for topic in topics}
        ),
    ),
    st.builds(DataVersion, counter=COUNTS, timestamp=COUNTS),
    st.lists(TOPICS, max_size=4),
    st.lists(st.text(alphabet=st.characters(codec="utf-8")), max_size=2),
)


def block(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def compressed(*topics: bytes, version: bytes = b'{"counter":1}', filters: bytes = b"[]", more: bytes = b"") -> bytes:
    lines = b"".join(map(block, topics))
    return zlib.compress(block(version) + struct.pack(">i", len(topics)) + lines + block(filters) + more)


def decode_compressed(raw: bytes) -> RegisterBrokerBody:
    return decode_registration(raw, version=VERSION, compressed=True)


@given(REGISTRATIONS)
def test_both_current_forms_round_trip(body: RegisterBrokerBody) -> None:
    """remoting#22"""
    assert decode_registration(body.encode(), version=VERSION, compressed=False) == body
    assert decode_compressed(encode_compressed(body)) == body


def test_compression_loses_order_and_sysflag() -> None:
    """remoting-and-nameserver 3.5"""
    topic = TopicConfig(topic_name="T", order=True, topic_sys_flag=3, perm=4)
    wrapper = TopicConfigSerializeWrapper(topic_config_table={"T": topic})
    read = decode_compressed(encode_compressed(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)))
    assert read.topic_config_serialize_wrapper.topic_config_table == {"T": TopicConfig(topic_name="T", perm=4)}


@pytest.mark.parametrize("is_compressed", [True, False])
def test_no_body_is_a_table_without_topics(is_compressed: bool) -> None:  # noqa: FBT001  # parametrised
    """remoting#22"""
    read = decode_registration(b"", version=VERSION, compressed=is_compressed)
    assert read.topic_config_serialize_wrapper == TopicConfigSerializeWrapper(data_version=DataVersion(counter=0))


def test_a_peer_below_version_37_sends_the_table_alone() -> None:
    """remoting#22"""
    wrapper = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=2, timestamp=3), topic_config_table={"T": TopicConfig(topic_name="T")}
    )
    read = decode_registration(wrapper.encode(), version=36, compressed=False)
    assert read == RegisterBrokerBody(filter_server_list=None, topic_config_serialize_wrapper=wrapper)
    assert decode_registration(wrapper.encode(), version=37, compressed=False) == RegisterBrokerBody()


def test_members_of_5x_are_ignored() -> None:
    """remoting#23"""
    raw = b"""{"filterServerList":[],"topicConfigSerializeWrapper":{
        "dataVersion":{"counter":4,"stateVersion":0,"timestamp":5},"mappingDataVersion":{"counter":0},
        "topicConfigTable":{"T":{"attributes":{},"order":false,"perm":6,"readQueueNums":8,"topicName":"T",
            "topicFilterType":"SINGLE_TAG","topicSysFlag":0,"writeQueueNums":8}},
        "topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{"T":{"currIdMap":{0:0,1:1},"totalQueues":2}}}}"""
    read = decode_registration(raw, version=479, compressed=False).topic_config_serialize_wrapper
    assert read.data_version == DataVersion(counter=4, timestamp=5)
    assert read.topic_config_table == {"T": TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8)}


def test_a_compressed_body_may_end_with_mappings_of_5x() -> None:
    """remoting-and-nameserver 3.5"""
    read = decode_compressed(compressed(b"T 4 5 6 SINGLE_TAG", filters=b'["f:1"]', more=block(b"{}")))
    assert read.filter_server_list == ["f:1"]
    assert read.topic_config_serialize_wrapper == TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=1),
        topic_config_table={"T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=5, perm=6)},
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"no zlib at all",
        compressed(b"T 4 4 6 SINGLE_TAG")[:-6],
        compressed(b"T 4 4 6"),
        compressed(b"T 4 4 6 SINGLE_TAG {}"),
        compressed(b"T 4 four 6 SINGLE_TAG"),
        compressed(b"T\xff 4 4 6 SINGLE_TAG"),
        compressed(version=b"{"),
        compressed(filters=b"{}"),
        zlib.compress(b""),
        zlib.compress(struct.pack(">i", 5) + b"{}"),
        zlib.compress(struct.pack(">i", -1)),
        zlib.compress(block(b"{}") + struct.pack(">i", 2**31 - 1)),
    ],
    ids=[
        "stream",
        "cut",
        "four",
        "six",
        "number",
        "utf8",
        "version",
        "filters",
        "empty",
        "over",
        "minus",
        "count",
    ],
)
def test_a_bad_compressed_body_is_one_kind_of_error(raw: bytes) -> None:
    """remoting#22"""
    with pytest.raises(BodyError):
        decode_compressed(raw)


def test_a_body_that_inflates_without_end_is_refused() -> None:
    with pytest.raises(BodyError, match="more than"):
        decode_compressed(zlib.compress(bytes(MAX_INFLATED + 1), 1))


def test_the_checksum_has_no_sign() -> None:
    """remoting#21"""
    assert body_crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
    assert body_crc32(b"") == 0


def test_topics_are_counted_in_both_forms() -> None:
    """issue 12.6"""
    lines = [b"T%d 1 1 6 SINGLE_TAG" % number for number in range(MAX_TOPICS + 1)]
    with pytest.raises(BodyError, match=f"at most {MAX_TOPICS}"):
        decode_compressed(compressed(*lines))
    members = b",".join(b'"T%d":{"topicName":"T%d"}' % (number, number) for number in range(MAX_TOPICS + 1))
    raw = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%s}}}' % members
    with pytest.raises(BodyError, match=f"at most {MAX_TOPICS}"):
        decode_registration(raw, version=VERSION, compressed=False)


@pytest.mark.parametrize("version", [VERSION, 1])
def test_other_text_than_strict_json_has_a_limit_of_values(version: int) -> None:
    """A nameserver parses it in its event loop: 2,000,000 values took 3 s."""
    values = b"'x':[" + b",".join([b"1"] * BODY_LIMITS.values) + b"]"
    raw = b"{%s}" % values if version == 1 else b"{'topicConfigSerializeWrapper':{%s}}" % values
    with pytest.raises(BodyError, match=f"more than {BODY_LIMITS.values} values"):
        decode_registration(raw, version=version, compressed=False)


def test_a_long_version_in_the_dialect_is_rejected() -> None:
    """A frame of 16 KB stopped a nameserver for 13 s."""
    body = compressed(version=b"{counter:1,timestamp:" + b" " * (MAX_INFLATED - 100) + b"2}")
    assert len(body) < 20_000
    with pytest.raises(BodyError, match=f"bytes: more than {BODY_LIMITS.size}"):
        decode_compressed(body)


def test_a_line_of_many_words_is_not_split_to_its_end() -> None:
    """A frame of 16 KB took 128 MB."""
    body = compressed(b"T" + b" " * (MAX_INFLATED - 100))
    tracemalloc.start()
    try:
        with pytest.raises(BodyError, match="not a topic's five words"):
            decode_compressed(body)
        assert tracemalloc.get_traced_memory()[1] < 5 * MAX_INFLATED
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("number", [b"2147483648", b"9" * 5_000, b"-2147483649", b"1e999999", b"0x1"])
def test_numbers_that_java_has_no_int_for_are_refused(number: bytes) -> None:
    with pytest.raises(BodyError):
        decode_compressed(compressed(b"T %s 4 6 SINGLE_TAG" % number))
    raw = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T","readQueueNums":%s}}}}' % number
    with pytest.raises(BodyError):
        decode_registration(raw, version=VERSION, compressed=False)


def test_filter_servers_that_are_no_text_are_refused() -> None:
    with pytest.raises(BodyError, match="filter servers"):
        decode_compressed(compressed(filters=b'["\xff"]'))
