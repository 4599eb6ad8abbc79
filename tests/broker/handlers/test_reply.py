"""Replies to requesters (324 to 326; broker-requests section 1.10)."""

from collections.abc import Callable

import pytest

from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting import names
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.headers.send import ReplyMessageRequestHeader
from rmqlab.remoting.message import decode_messages, parse_properties

TOPIC = "DefaultCluster_REPLY_TOPIC"
Opener = Callable[..., TalkingBroker]


def ready(talk: TalkingBroker) -> TalkingBroker:
    talk.tasks.runs_at_once = True
    return talk


@pytest.fixture
def talk(talk: TalkingBroker) -> TalkingBroker:
    return ready(talk)


@pytest.fixture
def asker(talk: TalkingBroker) -> ScriptedPeer:
    return register_asker(talk)


def register_asker(talk: TalkingBroker, answer: int = ResponseCode.SUCCESS) -> ScriptedPeer:
    """A producer with the client id `asker`, which replies to pushed requests."""
    peer = ScriptedPeer("127.0.0.1:50009", {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Command(answer)})
    body = b'{"clientID":"asker","consumerDataSet":[],"producerDataSet":[{"groupName":"PG_Request"}]}'
    talk.ask(RequestCode.HEART_BEAT, None, body, peer=peer)
    return peer


def reply_fields(client_id: str | None = "asker", **properties: str) -> dict[str, str]:
    named = {"REPLY_TO_CLIENT": client_id} if client_id is not None else {}
    return send_fields(TOPIC, 0, MSG_TYPE="reply", CORRELATION_ID="c-1", **named, **properties)


def stored(talk: TalkingBroker) -> list[tuple[bytes, str]]:
    """Bodies and properties of the replies that are stored."""
    (reply,) = talk.pull(TOPIC)
    return [(one.body, one.properties_text) for one in decode_messages(reply.body)]


def test_a_reply_reaches_the_client_that_asked(talk: TalkingBroker, asker: ScriptedPeer) -> None:
    reply = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields(), b"9.99")
    assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, None)
    assert (reply.ext_fields["queueId"], reply.ext_fields["queueOffset"]) == ("0", "0")
    assert len(reply.ext_fields["msgId"]) == 32
    assert (reply.ext_fields["MSG_REGION"], reply.ext_fields["TRACE_ON"]) == ("DefaultRegion", "true")
    (pushed,) = asker.asked
    assert (pushed.code, pushed.is_oneway, pushed.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, False, b"9.99")
    header = pushed.header(ReplyMessageRequestHeader)
    assert (header.topic, header.producer_group, header.queue_id) == (TOPIC, "P", 0)
    assert (header.born_host, header.store_host) == (talk.peer.peer, "127.0.0.1:10911")
    properties = parse_properties(header.properties or "")
    assert properties.pop("PUSH_REPLY_TIME") == str(talk.clock.now_millis()) == str(header.store_timestamp)
    assert properties == {"REPLY_TO_CLIENT": "asker", "MSG_TYPE": "reply", "CORRELATION_ID": "c-1"}


def test_a_reply_is_stored_as_it_came(talk: TalkingBroker, asker: ScriptedPeer) -> None:
    fields = reply_fields(TAGS="TagA")
    talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"9.99")
    assert len(asker.asked) == 1
    assert stored(talk) == [(b"9.99", fields["i"])]
    stats = talk.broker.stats  # as a send (ReplyMessageProcessor.handlePutMessageResult)
    assert (
        stats.items.topic_puts[TOPIC].messages,
        stats.items.broker_puts["DefaultCluster"].messages,
        stats.put_total,
    ) == (1, 1, 1)


def test_a_reply_with_a_delay_level_waits_in_the_schedule_topic(talk: TalkingBroker, asker: ScriptedPeer) -> None:
    """CommitLog.asyncPutMessage. Offset and statistics are the schedule topic's."""
    talk.send("T", DELAY="3")
    reply = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields(DELAY="3"), b"9.99")
    assert (reply.code, reply.ext_fields["queueId"], reply.ext_fields["queueOffset"]) == (0, "0", "1")
    assert len(asker.asked) == 1  # the push does not wait
    assert talk.broker.store.max_queue_offset(TOPIC, 0) == 0
    (pulled,) = talk.pull(names.SCHEDULE_TOPIC, 1, queueId=2)
    (message,) = decode_messages(pulled.body)
    assert message.properties == {
        "REPLY_TO_CLIENT": "asker", "MSG_TYPE": "reply", "CORRELATION_ID": "c-1", "DELAY": "3",
        "PUSH_REPLY_TIME": str(talk.clock.now_millis()), "REAL_TOPIC": TOPIC, "REAL_QID": "0",
    }  # fmt: skip
    assert talk.broker.stats.items.topic_puts[names.SCHEDULE_TOPIC].messages == 2
    assert TOPIC not in talk.broker.stats.items.topic_puts


@pytest.mark.parametrize("client_id", ["asker", "nobody"])
def test_a_reply_whose_delay_is_no_number_is_pushed_and_not_stored(
    talk: TalkingBroker, asker: ScriptedPeer, client_id: str
) -> None:
    reply = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields(client_id, DELAY="x"), b"9.99")
    assert (reply.code, "x" in (reply.remark or ""), reply.raw_fields) == (ResponseCode.SYSTEM_ERROR, True, None)
    assert len(asker.asked) == (client_id == "asker")
    assert talk.broker.store.max_commit_log_offset == 0
    assert not talk.broker.errors.counts


def test_the_first_version_has_long_names(talk: TalkingBroker, asker: ScriptedPeer) -> None:
    letters = {
        "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
        "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
    }  # fmt: skip
    fields = reply_fields()
    named = {letters[letter]: fields[letter] for letter in letters}
    assert talk.ask(RequestCode.SEND_REPLY_MESSAGE, named, b"9.99").code == ResponseCode.SUCCESS
    assert asker.asked[0].body == b"9.99"


@pytest.mark.parametrize(
    ("client_id", "remark"),
    [
        ("nobody", "push reply message fail, channel of <nobody> not found."),
        (None, "reply message properties[REPLY_TO_CLIENT] is null"),
    ],
)
def test_a_reply_to_an_unknown_client_is_an_error_and_stored(
    talk: TalkingBroker, client_id: str | None, remark: str
) -> None:
    reply = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields(client_id), b"9.99")
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert len(reply.ext_fields["msgId"]) == 32
    assert len(stored(talk)) == 1


def test_a_requester_that_rejects_or_ignores_a_reply_causes_an_error(talk: TalkingBroker) -> None:
    peer = register_asker(talk, ResponseCode.SYSTEM_ERROR)
    for _ in range(2):
        reply = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields(), b"9.99")
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "push reply message to askerfail.")
        peer.scripted_replies.clear()
    assert len(stored(talk)) == 2


def test_replies_need_not_be_stored(open_broker: Opener) -> None:
    talk = ready(open_broker("forgetful", store_reply_message_enable=False))
    register_asker(talk)
    reply = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields(), b"9.99")
    fields = {name: reply.ext_fields.get(name) for name in ("msgId", "queueId", "queueOffset")}
    assert (reply.code, fields) == (ResponseCode.SUCCESS, {"msgId": "0", "queueId": "0", "queueOffset": "0"})
    reply = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields("nobody"), b"9.99")
    assert (reply.code, sorted(reply.ext_fields)) == (ResponseCode.SYSTEM_ERROR, ["MSG_REGION", "TRACE_ON"])
    assert talk.broker.store.max_commit_log_offset == 0


def test_a_slave_pushes_and_does_not_store(slave: TalkingBroker) -> None:
    talk = ready(slave)
    register_asker(talk)
    reply = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields(), b"9.99")
    assert (reply.code, reply.ext_fields["msgId"]) == (ResponseCode.SUCCESS, "0")
    assert talk.broker.store.max_commit_log_offset == 0


def test_the_answer_waits_for_a_slave_and_does_not_tell_of_it(open_broker: Opener) -> None:
    talk = ready(open_broker("sync", broker_role="SYNC_MASTER"))
    talk.replication.has_slave = True
    register_asker(talk)
    assert talk.exchange(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields(), b"9.99") == []
    talk.clock.advance(60)
    talk.expire_slave_waits()
    assert talk.peer.replies[-1].code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"b": "a b"}, 1), ({"b": "SCHEDULE_TOPIC_XXXX"}, 16), ({"b": "NoSuch", "c": "NoSuch"}, 17), ({"e": "99"}, 1)],
)
def test_a_reply_is_checked_as_any_send(
    talk: TalkingBroker, asker: ScriptedPeer, changes: dict[str, str], code: int
) -> None:
    reply = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields() | changes, b"9.99")
    assert (reply.code, sorted(reply.ext_fields)) == (code, ["MSG_REGION", "TRACE_ON"])
    assert asker.asked == []
