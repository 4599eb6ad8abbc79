"""Topics of filter type MULTI_TAG: a bit in the sysFlag of their records.

Source: store-and-ha section 2.2.
"""

import pytest

from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting import names
from rmqlab.remoting.batch import BatchItem, encode_batch
from rmqlab.remoting.bodies.topic import MULTI_TAG, TopicConfig
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.message import COMPRESSED, MULTI_TAGS, decode_messages


@pytest.fixture
def talk(talk: TalkingBroker) -> TalkingBroker:
    """A broker with the topic M, of filter type MULTI_TAG."""
    talk.broker.topics.put(TopicConfig(topic_name="M", topic_filter_type=MULTI_TAG))
    return talk


def sys_flags(talk: TalkingBroker, topic: str, queue_id: int = 0) -> list[int]:
    """The sysFlags of a queue's records."""
    talk.broker.topics.create_plain(topic, 1)
    (reply,) = talk.pull(topic, queueId=queue_id)
    return [message.sys_flag for message in decode_messages(reply.body)]


def test_the_broker_adds_the_bit_to_those_of_the_request(talk: TalkingBroker) -> None:
    talk.send("M", TAGS="a||b")
    talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("M") | {"f": str(COMPRESSED)})
    talk.send("T", TAGS="a||b")
    assert sys_flags(talk, "M") == [MULTI_TAGS, MULTI_TAGS | COMPRESSED]
    assert sys_flags(talk, "T") == [0]


def test_each_message_of_a_batch_has_the_bit(talk: TalkingBroker) -> None:
    body = encode_batch([BatchItem(b"1", b"TAGS\x01A"), BatchItem(b"2")])
    talk.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("M") | {"m": "true"}, body)
    assert sys_flags(talk, "M") == [MULTI_TAGS, MULTI_TAGS]


def test_a_topic_made_from_such_a_template_has_its_filter_type(talk: TalkingBroker) -> None:
    talk.broker.topics.put(TopicConfig(topic_name="Template", topic_filter_type=MULTI_TAG, perm=7))
    talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("New") | {"c": "Template"})
    assert sys_flags(talk, "New") == [MULTI_TAGS]


def test_delayed_and_half_messages_keep_the_bit_of_their_topic(talk: TalkingBroker) -> None:
    talk.send("M", DELAY="1")
    talk.send("M", TRAN_MSG="true", PGROUP="P")
    assert sys_flags(talk, names.SCHEDULE_TOPIC) == [MULTI_TAGS]
    assert sys_flags(talk, names.HALF_TOPIC) == [MULTI_TAGS]


@pytest.mark.parametrize(("times", "expected"), [("0", 0), ("16", MULTI_TAGS)])
def test_the_filter_type_of_a_dead_letter_is_that_of_its_own_topic(
    talk: TalkingBroker, times: str, expected: int
) -> None:
    """SendMessageProcessor.handleRetryAndDLQ."""
    talk.broker.topics.put(TopicConfig(topic_name="%DLQ%g", topic_filter_type=MULTI_TAG))
    talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("%RETRY%g") | {"j": times})
    assert sys_flags(talk, "%DLQ%g" if expected else "%RETRY%g") == [expected]


def test_replies_do_not_have_the_bit(talk: TalkingBroker) -> None:
    """ReplyMessageProcessor stores no sysFlag."""
    talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, send_fields("M"))
    assert sys_flags(talk, "M") == [0]
