"""What a broker passes on to consumers (broker-requests section 6.3, #58, #59)."""

import json

import msgspec
import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.bodies.offset import ResetOffsetBody
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import decode_message
from rmqlab.runtime.net.remoting_errors import ConnectionLostError

CLIENT = "127.0.0.1:50009@test"
RUNNING = {"consumerGroup": "G", "clientId": CLIENT, "jstackEnable": "false"}
ODD_BODY = b'{"mqTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{}},"properties":{}}'


@pytest.fixture
def consumer(talk: TalkingBroker) -> ScriptedPeer:
    """A consumer of group G, which subscribes to T."""
    peer = ScriptedPeer("127.0.0.1:50009")
    talk.heartbeat("G", "T", peer=peer)
    peer.asked.clear()
    return peer


async def passed_on(talk: TalkingBroker, code: RequestCode, fields: dict[str, str]) -> Command:
    """Send a request with a deferred reply, and wait for this reply."""
    assert talk.exchange(code, fields) == []
    await talk.tasks.run_all()
    return talk.peer.replies[-1]


async def test_running_info_is_the_consumers_answer_byte_for_byte(talk: TalkingBroker, consumer: ScriptedPeer) -> None:
    """broker-requests#59."""
    consumer.scripted_replies[307] = Command(0, body=ODD_BODY, remark="as it says")
    reply = await passed_on(talk, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING | {"AccessKey": "k"})
    assert (reply.code, reply.remark, reply.body, reply.raw_fields) == (0, "as it says", ODD_BODY, None)
    (asked,) = consumer.asked
    assert (asked.code, asked.ext_fields) == (307, RUNNING | {"AccessKey": "k"})


async def test_ext_fields_of_the_consumers_answer_are_passed_on(talk: TalkingBroker, consumer: ScriptedPeer) -> None:
    """AdminBrokerProcessor.callConsumer returns the response itself."""
    consumer.scripted_replies[307] = Command(0, raw_fields={"of": "the client"})
    reply = await passed_on(talk, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert reply.ext_fields == {"of": "the client"}


async def test_ext_fields_that_are_unreadable_are_a_system_error(talk: TalkingBroker, consumer: ScriptedPeer) -> None:
    consumer.scripted_replies[307] = Command(0, raw_fields=msgspec.Raw(b"[1]"))
    reply = await passed_on(talk, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert reply.code == ResponseCode.SYSTEM_ERROR


async def test_an_error_of_the_consumer_is_passed_on_too(talk: TalkingBroker, consumer: ScriptedPeer) -> None:
    consumer.scripted_replies[307] = Command(ResponseCode.SYSTEM_ERROR, remark="no such group")
    reply = await passed_on(talk, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "no such group")


async def test_a_consumer_that_does_not_answer_is_a_consume_timeout(
    talk: TalkingBroker, consumer: ScriptedPeer
) -> None:
    """broker-requests#59: after 10 s."""
    reply = await passed_on(talk, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert reply.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert reply.remark is not None
    assert "10 s" in reply.remark
    assert len(consumer.asked) == 1


class LeavingPeer(ScriptedPeer):
    """Closes its connection in place of a reply."""

    async def request(self, command: Command, timeout: float) -> Command:  # noqa: ARG002, ASYNC109 - the real one's form
        self.is_closed = True
        raise ConnectionLostError(f"{self.peer} closed before the response to {command.code}")


@pytest.mark.parametrize(
    ("code", "fields", "expected", "seconds"),
    [
        (RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING, ResponseCode.CONSUME_MSG_TIMEOUT, 10),
        (
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            {"topic": "T", "group": "G", "clientAddr": ""},
            ResponseCode.SUCCESS,
            5,
        ),
    ],
)
async def test_a_consumer_that_leaves_in_place_of_an_answer_times_out(
    talk: TalkingBroker,
    autojump_clock: MockClock,
    code: RequestCode,
    fields: dict[str, str],
    expected: int,
    seconds: float,
) -> None:
    """As the real broker does."""
    del autojump_clock
    talk.heartbeat("G", "T", peer=LeavingPeer("127.0.0.1:50009"))
    began = trio.current_time()
    reply = await passed_on(talk, code, fields)
    assert reply.code == expected
    assert trio.current_time() - began == pytest.approx(seconds)


async def test_a_message_is_consumed_directly(talk: TalkingBroker, consumer: ScriptedPeer) -> None:
    """Section 6.3, recording b4: the broker adds its name and the stored message."""
    message_id = talk.send("T", body=b"to consume").ext_fields["msgId"]
    result = b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":4}'
    consumer.scripted_replies[309] = Command(0, body=result)
    fields = {"consumerGroup": "G", "clientId": CLIENT, "msgId": message_id}
    reply = await passed_on(talk, RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
    assert (reply.code, reply.body) == (0, result)
    (asked,) = consumer.asked
    assert asked.ext_fields == fields | {"brokerName": "broker-a"}
    assert decode_message(asked.body).body == b"to consume"


@pytest.mark.parametrize("changes", [{"clientId": "nobody"}, {"consumerGroup": "H"}])
def test_a_consumer_that_is_not_here_is_a_system_error(
    talk: TalkingBroker, consumer: ScriptedPeer, changes: dict[str, str]
) -> None:
    assert talk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING | changes).code == ResponseCode.SYSTEM_ERROR
    assert consumer.asked == []


@pytest.mark.parametrize("message_id", ["", "XY", "7F00000100002A9F00000000000F4240"])
@pytest.mark.usefixtures("consumer")
def test_a_message_that_is_not_here_is_a_system_error(talk: TalkingBroker, message_id: str) -> None:
    fields = {"consumerGroup": "G", "clientId": CLIENT, "msgId": message_id}
    assert talk.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields).code == ResponseCode.SYSTEM_ERROR


def test_a_consumer_older_than_running_info_is_not_asked(talk: TalkingBroker) -> None:
    """Section 6.3: below version 62."""
    body = json.dumps({"clientID": "old", "consumerDataSet": [{"groupName": "G"}], "producerDataSet": []})
    talk.ask(RequestCode.HEART_BEAT, None, body.encode(), version=61)
    fields = RUNNING | {"clientId": "old"}
    assert talk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields).code == ResponseCode.SYSTEM_ERROR


def commit_all(talk: TalkingBroker, offset: int) -> None:
    for queue_id in range(4):
        talk.broker.offsets.commit("G", "T", queue_id, offset)


def reset(talk: TalkingBroker, timestamp: int, *, force: bool = True, language: str = "JAVA") -> Command:
    fields = {"topic": "T", "group": "G", "timestamp": str(timestamp), "isForce": str(force).lower()}
    return talk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, language=language)


def targets(reply: Command) -> list[int]:
    assert reply.code == ResponseCode.SUCCESS
    table = ResetOffsetBody.decode(reply.body).offset_table
    return [offset for _, offset in sorted((queue.queue_id, offset) for queue, offset in table.items())]


def test_consumers_receive_their_reset_offsets(talk: TalkingBroker, consumer: ScriptedPeer) -> None:
    """broker-requests#58, recording b6: broker offsets stay, isForce is sent as false."""
    began = talk.clock.now_millis()
    for _ in range(3):
        talk.send("T")
        talk.clock.advance(10)
    commit_all(talk, 2)
    reply = reset(talk, began + 10_000)
    assert (targets(reply), reply.remark) == ([1, 0, 0, 0], "not set any response code")
    assert talk.events[-1] == ("offset_reset", {"group": "G", "topic": "T"})
    (asked,) = consumer.asked
    assert (asked.code, asked.is_oneway, asked.body) == (220, True, reply.body)
    assert asked.ext_fields == {
        "topic": "T", "group": "G", "timestamp": str(began + 10_000), "isForce": "false",
    }  # fmt: skip
    assert b" " not in reply.body
    assert talk.broker.offsets.query("G", "T", 0) == 2


@pytest.mark.parametrize(("force", "expected"), [(True, [3, 0, 0, 0]), (False, [2, 0, 0, 0])])
def test_without_force_no_queue_moves_on(
    talk: TalkingBroker, consumer: ScriptedPeer, expected: list[int], *, force: bool
) -> None:
    """Section 6.3: -1 is the end of each queue."""
    for _ in range(3):
        talk.send("T")
    commit_all(talk, 2)
    assert targets(reset(talk, -1, force=force)) == expected
    assert len(consumer.asked) == 1


def test_the_form_for_consumers_is_chosen_by_the_tools_language(talk: TalkingBroker, consumer: ScriptedPeer) -> None:
    """Recording b6: `mqadmin resetOffsetByTime -c` says CPP.

    The tool's reply is the usual one.
    """
    talk.send("T")
    commit_all(talk, 1)
    reply = reset(talk, 0, language="CPP")
    assert targets(reply) == [0, 0, 0, 0]
    (asked,) = consumer.asked
    assert json.loads(asked.body)["offsetTable"][0] == {
        "brokerName": "broker-a", "offset": 0, "queueId": 0, "topic": "T",
    }  # fmt: skip


def test_an_offline_group_cannot_be_reset(talk: TalkingBroker) -> None:
    """broker-requests#58: 206 makes the tool commit the offsets itself."""
    talk.send("T")
    commit_all(talk, 1)
    assert reset(talk, 0).code == ResponseCode.CONSUMER_NOT_ONLINE


@pytest.mark.usefixtures("consumer")
def test_a_group_without_offsets_or_a_topic_unknown_is_a_system_error(talk: TalkingBroker) -> None:
    assert reset(talk, 0).code == ResponseCode.SYSTEM_ERROR
    talk.send("T")
    assert reset(talk, 0).code == ResponseCode.SYSTEM_ERROR
    commit_all(talk, 0)
    talk.broker.offsets.commit("G", "T", 3, -1)  # Broker2Client.resetOffset takes it for a missing one
    assert reset(talk, 0).code == ResponseCode.SYSTEM_ERROR


async def test_the_status_of_consumers_is_collected(talk: TalkingBroker, consumer: ScriptedPeer) -> None:
    """Section 6.3: a consumer without a reply is omitted."""
    silent = ScriptedPeer("127.0.0.1:50010")
    talk.heartbeat("G", "T", peer=silent)
    body = b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}}'
    consumer.scripted_replies[221] = Command(0, body=body)
    fields = {"topic": "T", "group": "G", "clientAddr": ""}
    reply = await passed_on(talk, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)
    expected = (
        '{"consumerTable":{"127.0.0.1:50009@test":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}},'
        '"messageQueueTable":{}}'
    )
    assert (reply.body.decode(), reply.remark) == (expected, "not set any response code")
    assert [command.code for command in silent.asked if command.code != 40] == [221]


async def test_one_consumers_status_can_be_asked_for(talk: TalkingBroker, consumer: ScriptedPeer) -> None:
    fields = {"topic": "T", "group": "G", "clientAddr": "nobody"}
    reply = await passed_on(talk, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)
    assert (reply.body, consumer.asked) == (b'{"consumerTable":{},"messageQueueTable":{}}', [])


def test_the_status_of_a_group_without_consumers_is_a_system_error(talk: TalkingBroker) -> None:
    fields = {"topic": "T", "group": "G"}
    assert talk.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields).code == ResponseCode.SYSTEM_ERROR
