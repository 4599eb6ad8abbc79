"""Sends (broker-requests section 1, store-and-ha).

Items: broker-requests#11 to #24; store-ha#14 to #18, #31 to #33.
"""

from collections.abc import Callable

import pytest

from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting import names
from rmqlab.remoting.batch import BatchItem, encode_batch
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.message import decode_message, java_hash, parse_offset_message_id, parse_properties
from rmqlab.store.results import PutStatus

Opener = Callable[..., TalkingBroker]

V1_NAMES = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
    "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
    "m": "batch",
}  # fmt: skip
ITEMS = encode_batch([BatchItem(b"1", b"TAGS\x01A"), BatchItem(b"2"), BatchItem(b"3", b"KEYS\x01k\x02")])


def v1(fields: dict[str, str]) -> dict[str, str]:
    return {V1_NAMES[letter]: value for letter, value in fields.items()}


@pytest.mark.parametrize(
    "code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE]
)
@pytest.mark.parametrize("is_batch", [False, True])
def test_the_header_decides_whether_a_send_is_a_batch(
    talk: TalkingBroker, code: RequestCode, *, is_batch: bool
) -> None:
    """broker-requests#11, #19."""
    fields = send_fields("T") | {"m": "true" if is_batch else "false"}
    reply = talk.ask(code, v1(fields) if code == RequestCode.SEND_MESSAGE else fields, ITEMS)
    assert reply.code == ResponseCode.SUCCESS
    assert len(reply.ext_fields["msgId"].split(",")) == (3 if is_batch else 1)
    assert talk.broker.store.max_queue_offset("T", 0) == (3 if is_batch else 1)


def test_a_js_client_sends_numbers_and_no_batch_field(talk: TalkingBroker) -> None:
    """broker-requests#4, #12: the values may be JSON numbers and booleans.

    Unknown fields change nothing (#6).
    """
    import msgspec

    from rmqlab.remoting.command import Command

    fields = (
        b'{"a":"P","b":"T","c":"TBW102","d":4,"e":1,"f":0,"g":1700000000000,"h":0,"i":"","j":0,"k":false,'
        b'"OnsChannel":"ALIYUN","Signature":"s"}'
    )
    command = Command(RequestCode.SEND_MESSAGE_V2, body=b"js", raw_fields=msgspec.Raw(fields))
    talk.run_pass(talk.peer, command)
    assert talk.peer.replies[-1].code == ResponseCode.SUCCESS
    (pulled,) = talk.pull("T", queueId=1)
    assert decode_message(pulled.body).body == b"js"


@pytest.mark.parametrize(("wanted", "made"), [("4", 4), ("20", 8)])
def test_an_unknown_topic_is_made_after_its_template(talk: TalkingBroker, wanted: str, made: int) -> None:
    """broker-requests#13."""
    assert talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("New") | {"d": wanted}).code == ResponseCode.SUCCESS
    topic = talk.broker.topics.get("New")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (made, made, 6)
    assert talk.registration.calls == [(None, True)]


def test_without_a_template_there_is_no_topic_but_a_retry_topic(talk: TalkingBroker) -> None:
    """broker-requests#14."""
    reply = talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("New") | {"c": "NoTemplate"})
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    assert talk.broker.topics.get("New") is None
    reply = talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("%RETRY%g") | {"c": "NoTemplate"})
    assert reply.code == ResponseCode.SUCCESS
    retry = talk.broker.topics.get("%RETRY%g")
    assert retry is not None
    assert (retry.write_queue_nums, retry.perm) == (1, 6)


def test_the_template_does_not_work_once_auto_creation_is_off(open_broker: Opener) -> None:
    talk = open_broker(auto_create_topic_enable=False)
    assert talk.send("New").code == ResponseCode.TOPIC_NOT_EXIST


def test_a_send_while_auto_creation_is_off_takes_the_permission_from_the_template(talk: TalkingBroker) -> None:
    """TopicConfigManager.createTopicInSendMessageMethod; the real broker does so, too."""
    talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"autoCreateTopicEnable=false")
    assert talk.send("New").code == ResponseCode.TOPIC_NOT_EXIST
    talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"autoCreateTopicEnable=true")
    assert talk.send("New").code == ResponseCode.TOPIC_NOT_EXIST
    template = talk.broker.topics.get("TBW102")
    assert template is not None
    assert (template.perm, template.write_queue_nums) == (6, 8)


def test_the_broker_chooses_a_queue_for_minus_one(talk: TalkingBroker) -> None:
    """broker-requests#15."""
    chosen = {talk.send("T", -1).ext_fields["queueId"] for _ in range(100)}
    assert chosen == {"0", "1", "2", "3"}


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_REPLY_MESSAGE_V2])
def test_a_send_to_a_topic_without_write_queues_is_a_system_error(talk: TalkingBroker, code: RequestCode) -> None:
    """RocketMQ divides by zero, and responds with code 1."""
    talk.broker.topics.create_plain("T0", 0)
    reply = talk.ask(code, send_fields("T0", -1))
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "topic T0 has no queue to write to")


def test_a_queue_that_is_neither_written_nor_read_is_refused_and_the_topic_stays(talk: TalkingBroker) -> None:
    """broker-requests#15."""
    assert talk.send("T", 4).code == ResponseCode.SYSTEM_ERROR
    assert talk.broker.topics.get("T") is not None


@pytest.mark.parametrize("topic", ["a b", "a.b", "", "x" * 128])
def test_an_illegal_topic_is_a_system_error(talk: TalkingBroker, topic: str) -> None:
    """broker-requests#16, store-ha#15."""
    assert talk.send(topic).code == ResponseCode.SYSTEM_ERROR


def test_an_illegal_topic_is_refused_where_it_exists_too(talk: TalkingBroker) -> None:
    """broker-requests#16: a heartbeat of an odd group makes its retry topic."""
    talk.heartbeat("a b", "T")
    assert talk.broker.topics.get("%RETRY%a b") is not None
    assert talk.send("%RETRY%a b").code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("topic", sorted(names.NO_SEND_TOPICS))
def test_clients_may_not_send_to_the_brokers_own_topics(talk: TalkingBroker, topic: str) -> None:
    """broker-requests#16."""
    assert talk.send(topic).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("topic", ["TBW102", "BenchmarkTest", "DefaultCluster", "broker-a"])
def test_other_system_topics_take_messages(talk: TalkingBroker, topic: str) -> None:
    """broker-requests#16."""
    assert talk.send(topic).code == ResponseCode.SUCCESS


def test_the_perm_of_a_topic_is_not_looked_at(talk: TalkingBroker) -> None:
    """Seen in recording b7: a send to a topic of perm 4 succeeds."""
    talk.broker.topics.create_plain("ReadOnly", 1, perm=4)
    assert talk.send("ReadOnly").code == ResponseCode.SUCCESS


def test_a_broker_that_may_not_be_written_to_refuses_order_topics_only(open_broker: Opener) -> None:
    talk = open_broker(broker_permission=4)
    talk.broker.topics.create_plain("Ordered", 1)
    talk.broker.topics.apply_order_topics(["Ordered"])
    assert talk.send("Ordered").code == ResponseCode.NO_PERMISSION
    assert talk.send("Plain").code == ResponseCode.SUCCESS


def test_a_broker_rejects_sends_before_its_start_time(open_broker: Opener) -> None:
    talk = open_broker(start_accept_send_request_time_stamp=1_800_000_000_000 + 1_001_000)
    assert talk.send("T").code == ResponseCode.SYSTEM_ERROR
    talk.clock.advance(2)
    assert talk.send("T").code == ResponseCode.SUCCESS


def test_limits_of_size(talk: TalkingBroker) -> None:
    """broker-requests#17, store-ha#15.

    The commit log file of this broker is smaller than 4 MiB, but for this it counts.
    """
    assert talk.send("T", body=b"").code == ResponseCode.SUCCESS
    assert talk.send("T", body=bytes(4 * 2**20 + 1)).code == ResponseCode.MESSAGE_ILLEGAL
    assert talk.send("T", P="x" * 32_768).code == ResponseCode.MESSAGE_ILLEGAL
    assert talk.broker.store.max_queue_offset("T", 0) == 1


def test_properties_that_take_long_to_parse_are_refused(talk: TalkingBroker) -> None:
    """Names may be repeated: 400,000 pairs of one name are one property."""
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_REPLY_MESSAGE_V2):
        (reply,) = talk.exchange(code, send_fields("T") | {"i": "a\x01b\x02" * 32_769}, b"x")
        assert (reply.code, reply.remark) == (ResponseCode.MESSAGE_ILLEGAL, "properties of 131076 characters")
    few = send_fields("T") | {"i": "a\x01b\x02" * 9}
    assert talk.ask(RequestCode.SEND_MESSAGE_V2, few).code == ResponseCode.SUCCESS


def test_the_message_id_leads_back_to_the_message(talk: TalkingBroker) -> None:
    """broker-requests#18, store-ha#16."""
    talk.send("T", body=b"first")
    fields = talk.send("T", body=b"second").ext_fields
    assert len(fields["msgId"]) == 32
    assert fields["msgId"] == fields["msgId"].upper()
    host, port, offset = parse_offset_message_id(fields["msgId"])
    assert (host, port) == talk.broker.store_host
    reply = talk.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
    assert decode_message(reply.body).body == b"second"
    assert (fields["queueId"], fields["queueOffset"]) == ("0", "1")


def test_batch_items_follow_one_another_and_share_properties_and_cluster(talk: TalkingBroker) -> None:
    """broker-requests#19, store-ha#14, #17."""
    talk.send("T")
    fields = send_fields("T", WAIT="true") | {"m": "true"}
    reply = talk.ask(RequestCode.SEND_BATCH_MESSAGE, fields, ITEMS).ext_fields
    assert reply["queueOffset"] == "1"
    stored = []
    for message_id in reply["msgId"].split(","):
        record = talk.broker.store.message_at(parse_offset_message_id(message_id)[2])
        assert record is not None
        stored.append(decode_message(record))
    assert [message.body for message in stored] == [b"1", b"2", b"3"]
    assert [message.queue_offset for message in stored] == [1, 2, 3]
    assert [message.properties for message in stored] == [
        {"TAGS": "A", "WAIT": "true", "CLUSTER": "DefaultCluster"},
        {"WAIT": "true", "CLUSTER": "DefaultCluster"},
        {"KEYS": "k", "WAIT": "true", "CLUSTER": "DefaultCluster"},
    ]


@pytest.mark.parametrize(
    ("changes", "body", "code"),
    [
        ({"f": "4"}, ITEMS, ResponseCode.MESSAGE_ILLEGAL),
        ({"i": "DELAY\x011"}, ITEMS, ResponseCode.MESSAGE_ILLEGAL),
        ({"i": "DELAY\x01abc"}, ITEMS, ResponseCode.SYSTEM_ERROR),
        ({"i": "DELAY\x01abc", "f": "4"}, ITEMS, ResponseCode.MESSAGE_ILLEGAL),
        ({"i": "DELAY\x01abc"}, bytes(4 * 2**20 + 1), ResponseCode.MESSAGE_ILLEGAL),
        ({}, bytes(4 * 2**20 + 1), ResponseCode.MESSAGE_ILLEGAL),
        ({}, ITEMS[:-1], ResponseCode.SYSTEM_ERROR),
    ],
)
def test_an_invalid_batch_is_rejected(
    talk: TalkingBroker, changes: dict[str, str], body: bytes, code: ResponseCode
) -> None:
    """store-ha#15, broker-requests section 1.5."""
    fields = send_fields("T") | {"m": "true"} | changes
    assert talk.ask(RequestCode.SEND_BATCH_MESSAGE, fields, body).code == code
    assert talk.broker.store.max_queue_offset("T", 0) == 0


@pytest.mark.parametrize("topic", ["T", "a b", names.SCHEDULE_TOPIC])
def test_every_answer_names_region_and_trace(talk: TalkingBroker, topic: str) -> None:
    """broker-requests#20: failures too."""
    fields = talk.send(topic).ext_fields
    assert (fields["MSG_REGION"], fields["TRACE_ON"]) == ("DefaultRegion", "true")


def test_all_ext_fields_of_an_answer_are_text(talk: TalkingBroker) -> None:
    """broker-requests#3, #10."""
    import msgspec

    from rmqlab.remoting.codec import encode_command

    reply = talk.send("T")
    raw = msgspec.json.decode(encode_command(reply)[8:])
    assert {type(value) for value in raw["extFields"].values()} == {str}


def test_wait_is_obeyed_but_stored_only_where_it_still_matters(talk: TalkingBroker) -> None:
    """store-ha#14."""
    talk.send("T", WAIT="true", TAGS="A")
    (reply,) = talk.pull("T")
    assert decode_message(reply.body).properties == {"TAGS": "A", "CLUSTER": "DefaultCluster"}
    talk.send("T", WAIT="true", DELAY="1")
    assert talk.broker.store.max_queue_offset(names.SCHEDULE_TOPIC, 0) == 1
    (reply,) = talk.pull(names.SCHEDULE_TOPIC)
    assert decode_message(reply.body).properties["WAIT"] == "true"


@pytest.mark.parametrize(("field", "value"), [("e", "+0"), ("e", "00"), ("j", "+1"), ("d", "004")])
def test_numbers_are_read_as_java_reads_them(talk: TalkingBroker, field: str, value: str) -> None:
    """remoting#7: a sign and leading zeroes are fine."""
    assert talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T") | {field: value}).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(("field", "value"), [("e", "2147483648"), ("e", "0.0"), ("j", " 1"), ("h", "1_0"), ("g", "")])
def test_numbers_invalid_in_java_are_rejected(talk: TalkingBroker, field: str, value: str) -> None:
    """remoting#7: headers of the fast codes (310, 11) reject it in every field."""
    assert talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T") | {field: value}).code == ResponseCode.SYSTEM_ERROR


def test_invalid_numbers_in_unused_fields_of_the_first_send_header_are_ignored(talk: TalkingBroker) -> None:
    """remoting#7: an invalid number there counts as missing."""
    talk.send("T")
    fields = {"topic": "T", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "reconsumeTimes": "x"}
    assert talk.ask(RequestCode.SEND_MESSAGE, fields, b"x").code == ResponseCode.SUCCESS


def test_fields_stored_of_a_plain_message(talk: TalkingBroker) -> None:
    """Born host, flags, times and the tag's hash are those of the request."""
    fields = send_fields("T", TAGS="TagA", KEYS="k1 k2", colour="red") | {"f": "1", "h": "7", "j": "2"}
    talk.ask(RequestCode.SEND_MESSAGE_V2, fields, b"zipped")
    (pulled,) = talk.pull("T")
    message = decode_message(pulled.body)
    assert (message.born_host, message.store_host) == (("127.0.0.1", 50001), ("127.0.0.1", 10911))
    assert (message.flag, message.sys_flag, message.reconsume_times) == (7, 1, 2)
    assert (message.born_timestamp, message.store_timestamp) == (1_700_000_000_000, talk.clock.now_millis())
    assert message.properties == {"TAGS": "TagA", "KEYS": "k1 k2", "colour": "red", "CLUSTER": "DefaultCluster"}
    assert talk.broker.store.queue_entries("T", 0, 0, 1)[0][2] == java_hash("TagA") == 2598919
    assert parse_properties(message.properties_text) == message.properties


def test_a_oneway_send_is_stored_and_never_answered(talk: TalkingBroker) -> None:
    """broker-requests#2: nor is one that fails."""
    assert talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T"), oneway=True) == []
    assert talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("a b"), oneway=True) == []
    assert talk.broker.store.max_queue_offset("T", 0) == 1


def test_a_send_is_counted(talk: TalkingBroker) -> None:
    talk.send("T")
    talk.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("T") | {"m": "true"}, ITEMS)
    stats = talk.broker.stats
    assert (stats.put_total, stats.put_size_total) == (4, talk.broker.store.max_commit_log_offset)
    assert stats.items.topic_puts["T"].calls == 2
    talk.send("T", P="\xe4" * 20_000)
    assert stats.put_failures == 1
    stats.put_times.turn_minute()
    assert sum(stats.put_times.distribution) == 3


def test_a_send_that_never_reaches_the_log_is_no_failed_put(talk: TalkingBroker) -> None:
    """DefaultMessageStore.asyncPutMessage: checkStoreStatus, checkMessage."""
    assert talk.send("T", P="x" * 32_768).code == ResponseCode.MESSAGE_ILLEGAL
    talk.broker.store.putter.refusal = "the disk is full"
    assert talk.send("T").code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert talk.broker.stats.put_failures == 0


def test_a_redirected_send_is_counted_under_the_topic_of_its_record(talk: TalkingBroker) -> None:
    """SendMessageProcessor.handlePutMessageResult.

    `mqadmin exportMetrics` shows these two.
    """
    talk.send("T", DELAY="1")
    talk.send("T", TRAN_MSG="true", PGROUP="P")
    assert list(talk.broker.stats.items.topic_puts) == [names.SCHEDULE_TOPIC, names.HALF_TOPIC]
    assert talk.broker.stats.items.broker_puts["DefaultCluster"].messages == 2


def test_a_full_disk_is_service_not_available(talk: TalkingBroker) -> None:
    """store-ha#31."""
    talk.broker.store.putter.refusal = "the disk is full"
    reply = talk.send("T")
    assert (reply.code, reply.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")


@pytest.mark.parametrize("body", [b"", b"cut", ITEMS])
def test_a_slave_rejects_sends_before_it_checks_delays_and_batches(slave: TalkingBroker, body: bytes) -> None:
    """store-ha#31, #33: as a real slave, which the differential test compares."""
    assert slave.send("T", DELAY="abc").code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert slave.send("T", TRAN_MSG="true", DELAY="abc").code == ResponseCode.SERVICE_NOT_AVAILABLE
    for level in ("1", "abc"):
        batch = send_fields("T", DELAY=level) | {"m": "true"}
        assert slave.ask(RequestCode.SEND_BATCH_MESSAGE, batch, body).code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_slave_rejects_sends(slave: TalkingBroker) -> None:
    """broker-requests#64, store-ha#33, #76: it checks, and may create the topic."""
    assert slave.send("a b").code == ResponseCode.SYSTEM_ERROR
    reply = slave.send("T")
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "msgId" not in reply.ext_fields
    assert slave.broker.store.max_commit_log_offset == 0
    assert slave.broker.topics.get("T") is not None


@pytest.mark.parametrize("status", list(PutStatus))
def test_every_outcome_of_the_store_has_a_code(status: PutStatus) -> None:
    from rmqlab.broker.handlers.send import NOT_STORED, STORED

    stored = {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
    assert (status in STORED) == (status in stored)
    assert not (status in STORED and status in NOT_STORED)
