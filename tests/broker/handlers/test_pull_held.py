"""Pulls that are held until a message arrives (broker-requests section 2.7)."""

import json
import math
from collections.abc import Callable
from typing import NoReturn

import pytest

from rmqlab.broker.filter.message_filter import MessageFilter
from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.testing import TalkingBroker, pull_fields
from rmqlab.broker.waits.held_pulls import WAKES_AT_ONCE
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.frame import JSON, ROCKETMQ
from rmqlab.runtime.net.dispatch import OVERLOAD
from tests.broker.handlers.pulls import bodies, outcome, pull, replicate

Opener = Callable[..., TalkingBroker]


def hold(talk: TalkingBroker, offset: int, *, peer: ScriptedPeer | None = None, **changes: object) -> None:
    assert (
        talk.exchange(RequestCode.PULL_MESSAGE, pull_fields("T", offset, **{"sysFlag": 6, **changes}), peer=peer) == []
    )


def test_a_held_pull_is_answered_by_the_message_it_waits_for(filled: TalkingBroker) -> None:
    """broker-requests#31. The reply has the opaque of the pull, not of the send."""
    peer = ScriptedPeer("127.0.0.1:50002")
    hold(filled, 5, peer=peer, subscription="A")
    filled.send("T", body=b"not this", TAGS="B")
    assert peer.replies == []
    filled.send("T", body=b"this", TAGS="A")
    (reply,) = peer.replies
    assert (bodies(reply), outcome(reply)) == ([b"this"], (ResponseCode.SUCCESS, 7))
    assert len(filled.broker.hold) == 0


def test_the_answer_to_a_held_binary_pull_is_json(filled: TalkingBroker) -> None:
    """Class PullMessageProcessor: executeRequestWhenWakeup sets no codec."""
    peer = ScriptedPeer("127.0.0.1:50002")
    for offset in (0, 5):
        fields = pull_fields("T", offset, sysFlag=6)
        filled.serve(Command(RequestCode.PULL_MESSAGE, raw_fields=fields, serialize_type=ROCKETMQ), peer=peer)
    filled.send("T", body=b"this")
    found, woken = peer.replies
    assert (found.serialize_type, woken.serialize_type) == (ROCKETMQ, JSON)
    assert outcome(woken) == (ResponseCode.SUCCESS, 6)


def test_a_batch_wakes_a_held_pull_once(filled: TalkingBroker) -> None:
    from rmqlab.broker.testing import send_fields
    from rmqlab.remoting.batch import BatchItem, encode_batch

    peer = ScriptedPeer("127.0.0.1:50002")
    hold(filled, 5, peer=peer)
    items = encode_batch([BatchItem(b"a"), BatchItem(b"b")])
    filled.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("T") | {"m": "true"}, items)
    assert len(peer.replies) == 1


def test_only_not_found_is_held(filled: TalkingBroker) -> None:
    """broker-requests#31."""
    assert pull(filled, "T", 9, sysFlag=6).code == ResponseCode.PULL_OFFSET_MOVED
    assert pull(filled, "T", 0, sysFlag=6, subscription="A").code == ResponseCode.PULL_RETRY_IMMEDIATELY


def test_a_held_pull_of_fewer_than_no_messages_fails_when_one_arrives(filled: TalkingBroker) -> None:
    peer = ScriptedPeer("127.0.0.1:50002")
    hold(filled, 5, peer=peer, maxMsgNums=-1)
    filled.send("T")
    assert [reply.code for reply in peer.replies] == [ResponseCode.SYSTEM_ERROR]
    assert not filled.broker.errors.counts


def test_a_held_pull_whose_queue_got_only_other_tags_moves_on_at_the_sweep(filled: TalkingBroker) -> None:
    """broker-requests#32."""
    hold(filled, 5, subscription="A")
    filled.send("T", TAGS="B")
    filled.sweep_held_pulls()
    assert outcome(filled.peer.replies[-1]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 6)


def test_a_held_pull_ends_with_the_first_sweep_after_its_time(filled: TalkingBroker) -> None:
    """broker-requests#31."""
    hold(filled, 5, suspendTimeoutMillis=15_000)
    before = len(filled.peer.replies)
    for _ in range(2):
        filled.clock.advance(5)
        filled.sweep_held_pulls()
    assert len(filled.peer.replies) == before
    filled.clock.advance(5)
    filled.sweep_held_pulls()
    assert outcome(filled.peer.replies[-1]) == (ResponseCode.PULL_NOT_FOUND, 5)


def test_a_held_pull_of_a_closed_connection_is_dropped(filled: TalkingBroker) -> None:
    """Section 2.7."""
    peer = ScriptedPeer("127.0.0.1:50002")
    hold(filled, 5, peer=peer)
    peer.close("gone")
    filled.send("T")
    assert (peer.replies, len(filled.broker.hold)) == ([], 0)


def test_a_held_pull_of_a_topic_that_is_deleted_is_not_left_hanging(filled: TalkingBroker) -> None:
    hold(filled, 5)
    filled.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
    filled.clock.advance(20)
    filled.sweep_held_pulls()
    assert filled.peer.replies[-1].code == ResponseCode.TOPIC_NOT_EXIST


def test_a_pull_beyond_the_limit_of_held_ones_is_refused(talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 12.6: as RocketMQ refuses one when the queue of its pull threads is full."""
    monkeypatch.setattr("rmqlab.broker.waits.held_pulls.MAX_HELD_OF_CHANNEL", 3)
    talk.send("T")
    for _ in range(3):
        hold(talk, 1)
    reply = pull(talk, "T", 1, sysFlag=6)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_BUSY, OVERLOAD)
    assert len(talk.broker.hold) == 3


def test_one_message_for_many_held_pulls_makes_a_portion_of_answers(
    talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.6: of 2,000 pulls of a peer that does not read, most remain held.

    They are those without a response.
    """
    monkeypatch.setattr(
        "rmqlab.broker.waits.held_pulls.LONG_WAKE", math.inf
    )  # on a busy machine, any pull may take long
    talk.turns.is_collecting = True
    talk.send("T")
    peer = ScriptedPeer("127.0.0.1:50002")
    for _ in range(2000):
        hold(talk, 1, peer=peer)
    talk.send("T", body=b"x" * 100_000)
    assert len(peer.replies) == WAKES_AT_ONCE
    peer.is_congested = True
    talk.turns.run_all()
    assert (len(peer.replies), len(talk.broker.hold)) == (WAKES_AT_ONCE, 2000 - WAKES_AT_ONCE)
    peer.is_congested = False
    peer.drained.pop()()
    talk.turns.run_all()
    assert (len(peer.replies), len(talk.broker.hold)) == (2000, 0)


def test_a_held_pull_whose_filter_raises_is_woken_and_answered_with_the_error(
    filled: TalkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = ScriptedPeer("127.0.0.1:50002")
    hold(filled, 5, peer=peer)
    (held,) = filled.broker.hold._held["T", 0]

    def broken(*_args: object) -> NoReturn:
        raise ValueError("on purpose")

    held.message_filter = MessageFilter(broken)
    monkeypatch.setattr("rmqlab.broker.handlers.pullfilter.filter_by_tags", broken)
    filled.send("T")
    (reply,) = peer.replies
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "ValueError: on purpose")


def _forbid_the_topic(talk: TalkingBroker) -> None:
    fields = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "2"}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    assert talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == ResponseCode.SUCCESS


def _delete_the_topic(talk: TalkingBroker) -> None:
    assert talk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}).code == ResponseCode.SUCCESS


def _disable_the_group(talk: TalkingBroker) -> None:
    body = json.dumps({"groupName": "G", "consumeEnable": False}).encode()
    assert talk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_forbid_the_topic, ResponseCode.NO_PERMISSION),
        (_delete_the_topic, ResponseCode.TOPIC_NOT_EXIST),
        (_disable_the_group, ResponseCode.NO_PERMISSION),
    ],
)
def test_a_woken_pull_is_checked_like_a_new_one(
    filled: TalkingBroker, change: Callable[[TalkingBroker], None], code: int
) -> None:
    """PullMessageProcessor.executeRequestWhenWakeup processes the whole request again."""
    peer = ScriptedPeer("127.0.0.1:50002")
    hold(filled, 5, peer=peer, consumerGroup="G")
    change(filled)
    filled.clock.advance(20)
    filled.sweep_held_pulls()
    (reply,) = peer.replies
    assert (reply.code, reply.ext_fields) == (code, {})


@pytest.mark.parametrize(("millis", "is_released"), [(2**63 - 1, True), (2**62, False), (-(2**63), True)])
def test_a_hold_that_would_end_after_2_to_63_has_ended(
    filled: TalkingBroker, millis: int, *, is_released: bool
) -> None:
    """PullRequestHoldService adds it to the time of now."""
    hold(filled, 5, suspendTimeoutMillis=millis)
    before = len(filled.peer.replies)
    filled.sweep_held_pulls()
    assert len(filled.peer.replies) - before == is_released


def test_a_woken_pull_is_filtered_by_the_subscription_of_now(filled: TalkingBroker) -> None:
    """PullRequestHoldService wakes it by the filter it was held with."""
    peer = ScriptedPeer("127.0.0.1:50002")
    filled.heartbeat("G", "T", expression="A", peer=peer)
    hold(filled, 5, peer=peer, consumerGroup="G", sysFlag=2)
    filled.clock.advance(1)
    filled.heartbeat("G", "T", expression="B", peer=peer)
    filled.send("T", TAGS="A")
    assert outcome(peer.replies[-1]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 6)


def test_without_long_polling_a_pull_is_held_for_a_second(open_broker: Opener) -> None:
    """Section 2.7."""
    talk = open_broker(long_polling_enable=False)
    talk.send("T")
    hold(talk, 1)
    talk.clock.advance(1)
    talk.sweep_held_pulls()
    assert talk.peer.replies[-1].code == ResponseCode.PULL_NOT_FOUND


def test_without_long_polling_only_the_sweep_wakes_a_pull(open_broker: Opener) -> None:
    """ReputMessageService.doReput reports arrivals with long polling only."""
    talk, peer = open_broker(long_polling_enable=False), ScriptedPeer("127.0.0.1:50002")
    talk.send("T")
    hold(talk, 1, peer=peer)
    talk.send("T", body=b"late")
    assert peer.replies == []
    talk.sweep_held_pulls()
    assert bodies(peer.replies[-1]) == [b"late"]


def test_a_pull_held_on_a_slave_is_answered_by_the_sweep(filled: TalkingBroker, slave: TalkingBroker) -> None:
    """store-ha#70."""
    replicate(filled, slave)
    hold(slave, 5)
    filled.send("T", body=b"late")
    replicate(filled, slave)
    assert slave.peer.replies == []
    slave.sweep_held_pulls()
    assert bodies(slave.peer.replies[-1]) == [b"late"]


def test_with_wake_held_pulls_on_slave_it_is_answered_when_the_message_arrives(
    filled: TalkingBroker, open_broker: Opener
) -> None:
    """The pair of the test before.

    A delayed message in its schedule queue wakes no pull on a slave.
    """
    slave = open_broker("woken", broker_role="SLAVE", broker_id=1, wake_held_pulls_on_slave=True)
    replicate(filled, slave)
    hold(slave, 5)
    filled.send("T", body=b"late")
    filled.send("T", body=b"later", DELAY="1")
    replicate(filled, slave)
    assert bodies(slave.peer.replies[-1]) == [b"late"]
    assert slave.broker.delay.offsets == {}
