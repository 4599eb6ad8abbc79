"""Sends whose responses wait for disk and slave.

Sources: broker-requests#23; store-ha#29, #32, #50 to #56.
"""

import gc
from collections.abc import Callable

import pytest

from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting.codes import RequestCode, ResponseCode

Opener = Callable[..., TalkingBroker]


def test_a_sync_master_without_a_slave_keeps_the_message_and_says_so(open_broker: Opener) -> None:
    """broker-requests#23, store-ha#32, #50, #53."""
    talk = open_broker(broker_role="SYNC_MASTER")
    reply = talk.send("T")
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert {"msgId", "queueId", "queueOffset"} <= reply.ext_fields.keys()
    assert talk.pull("T")[0].code == ResponseCode.SUCCESS
    assert talk.send("T", WAIT="false").code == ResponseCode.SUCCESS


def test_a_sync_send_is_answered_when_the_slave_has_it(open_broker: Opener) -> None:
    """store-ha#52: one ack ends all the sends that it covers."""
    talk = open_broker(broker_role="SYNC_MASTER")
    talk.replication.has_slave = True
    for _ in range(2):
        assert talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T")) == []
    first_end = talk.broker.store.queue_entries("T", 0, 0, 1)[0][1]
    talk.acknowledge(first_end - 1)
    assert talk.peer.replies == []
    talk.acknowledge(talk.broker.store.max_commit_log_offset)
    assert [reply.code for reply in talk.peer.replies] == [ResponseCode.SUCCESS] * 2
    assert [reply.ext_fields["queueOffset"] for reply in talk.peer.replies] == ["0", "1"]


def test_a_silent_slave_costs_three_seconds_for_all_sends_together(open_broker: Opener) -> None:
    """store-ha#51."""
    talk = open_broker(broker_role="SYNC_MASTER")
    talk.replication.has_slave = True
    for _ in range(5):
        talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T"))
        talk.clock.advance(0.1)
    talk.clock.advance(2.4)
    talk.expire_slave_waits()
    assert talk.peer.replies == []
    talk.clock.advance(0.6)
    talk.expire_slave_waits()
    assert [reply.code for reply in talk.peer.replies] == [ResponseCode.FLUSH_SLAVE_TIMEOUT] * 5


@pytest.mark.parametrize("wait", ["true", "false"])
def test_an_async_master_never_asks_for_a_slave(talk: TalkingBroker, wait: str) -> None:
    """store-ha#53, #54, #29."""
    talk.replication.has_slave = True
    assert talk.send("T", WAIT=wait).code == ResponseCode.SUCCESS


def test_a_sync_flush_timeout_is_reported(open_broker: Opener) -> None:
    """store-ha#29."""
    talk = open_broker(flush_disk_type="SYNC_FLUSH")
    assert talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T")) == []
    talk.clock.advance(5)
    talk.broker.flush_waits.expire(talk.clock.now())
    assert [reply.code for reply in talk.peer.replies] == [ResponseCode.FLUSH_DISK_TIMEOUT]
    assert talk.send("T", WAIT="false").code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("has_slave", "code"), [(True, ResponseCode.FLUSH_SLAVE_TIMEOUT), (False, ResponseCode.SLAVE_NOT_AVAILABLE)]
)
def test_disk_and_slave_are_waited_for_side_by_side_and_the_slave_outweighs(
    open_broker: Opener, code: ResponseCode, *, has_slave: bool
) -> None:
    """store-ha#56."""
    talk = open_broker(broker_role="SYNC_MASTER", flush_disk_type="SYNC_FLUSH")
    talk.replication.has_slave = has_slave
    assert talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T")) == []
    talk.clock.advance(5)
    talk.expire_slave_waits()
    talk.broker.flush_waits.expire(talk.clock.now())
    assert [reply.code for reply in talk.peer.replies] == [code]


def test_the_disk_alone_does_not_answer_a_send_that_waits_for_a_slave_too(open_broker: Opener) -> None:
    """store-ha#56."""
    talk = open_broker(broker_role="SYNC_MASTER", flush_disk_type="SYNC_FLUSH")
    talk.replication.has_slave = True
    talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T"))
    talk.broker.flush_waits.advance(talk.broker.store.max_commit_log_offset)
    assert talk.peer.replies == []
    talk.acknowledge(talk.broker.store.max_commit_log_offset)
    assert [reply.code for reply in talk.peer.replies] == [ResponseCode.SUCCESS]


def test_a_send_leaves_nothing_for_the_garbage_collector(open_broker: Opener) -> None:
    """A reference cycle per send costs a tenth of the rate.

    Memory that is freed at once is still in the processor's cache.
    """
    talk = open_broker(broker_role="SYNC_MASTER")
    talk.replication.has_slave = True
    talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T"))  # what is made once is made
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T"))
            talk.acknowledge(talk.broker.store.max_commit_log_offset)
        assert gc.collect() == 0
    finally:
        gc.enable()
