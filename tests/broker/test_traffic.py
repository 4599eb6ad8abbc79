"""The journal of what clients do, for those that keep none."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from rmqlab.broker.handlers import handlers_of
from rmqlab.broker.testing import TalkingBroker, open_talking_broker, pull_fields, send_fields
from rmqlab.broker.traffic import watched
from rmqlab.remoting.codes import RequestCode, ResponseCode


@pytest.fixture
def broker(tmp_path: pathlib.Path) -> Iterator[TalkingBroker]:
    talking = open_talking_broker(tmp_path)
    talking.dispatcher.table = watched(handlers_of(talking.broker))
    yield talking
    talking.broker.store.close()


def served(broker: TalkingBroker) -> list[dict[str, Any]]:
    return [fields for kind, fields in broker.events if kind == "served"]


def test_sends_pulls_and_commits_are_journalled_with_their_outcome(broker: TalkingBroker) -> None:
    assert broker.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders", 1, UNIQ_KEY="A1"), b"x").code == 0
    assert broker.ask(RequestCode.PULL_MESSAGE, pull_fields("orders", queueId=1)).code == 0
    commit = {"consumerGroup": "g", "topic": "orders", "queueId": "1", "commitOffset": "1"}
    assert broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 0
    sent, pulled, committed = served(broker)
    assert (sent["request"], sent["group"], sent["topic"], sent["queue"]) == ("SEND_MESSAGE_V2", "P", "orders", 1)
    assert (sent["message_ids"], sent["code"], sent["result_offset"]) == (["A1"], 0, 0)
    assert (pulled["offset"], pulled["code"], pulled["result_offset"]) == (0, 0, 1)
    assert (committed["group"], committed["offset"], committed["code"]) == ("g", 1, 0)
    assert sent["peer"] == broker.peer.peer


def test_a_rejection_is_journalled_with_its_reason_and_sent_once(broker: TalkingBroker) -> None:
    reply = broker.ask(RequestCode.SEND_MESSAGE_V2, send_fields("SCHEDULE_TOPIC_XXXX"), b"x")
    assert reply.code == ResponseCode.NO_PERMISSION
    (sent,) = served(broker)
    assert sent["code"] == ResponseCode.NO_PERMISSION
    assert sent["remark"] == reply.remark


def test_offsets_are_recorded_when_they_are_stored_though_the_pull_is_held(broker: TalkingBroker) -> None:
    for _ in range(27):
        broker.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders", 1), b"x")
    assert broker.pull("orders", 27, consumerGroup="g", queueId=1, sysFlag=7, commitOffset=26) == []
    commit = {"consumerGroup": "g", "topic": "orders", "queueId": "1", "commitOffset": "27"}
    broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    events = [(fields["request"], fields["before"], fields["offset"]) for fields in stored(broker)]
    assert events == [("PULL_MESSAGE", None, 26), ("UPDATE_CONSUMER_OFFSET", 26, 27)]


def stored(broker: TalkingBroker) -> list[dict[str, Any]]:
    return [fields for kind, fields in broker.events if kind == "offset_committed"]
