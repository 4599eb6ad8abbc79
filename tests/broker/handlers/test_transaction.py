"""END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE (broker-requests sections 4.2, 6)."""

from collections.abc import Callable

import pytest

from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting import names
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import StoredMessage, decode_messages, offset_message_id, parse_offset_message_id
from rmqlab.store.testing import new_message

COMMIT, ROLLBACK = 8, 12
OpenBroker = Callable[..., TalkingBroker]


def stored(talk: TalkingBroker, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    return list(decode_messages(b"".join(talk.broker.store.get_message(topic, queue_id, 0, 32).buffers)))


def end_fields(half: Command, decision: int, **changes: object) -> dict[str, str]:
    """Ext fields that end the transaction of a send, by the send's reply."""
    fields = {
        "producerGroup": "P",
        "tranStateTableOffset": half.ext_fields["queueOffset"],
        "commitLogOffset": parse_offset_message_id(half.ext_fields["msgId"])[2],
        "commitOrRollback": decision,
        "fromTransactionCheck": "false",
        "msgId": "U",
        **changes,
    }
    return {name: str(value) for name, value in fields.items()}


def end(talk: TalkingBroker, half: Command, decision: int, **changes: object) -> list[Command]:
    return talk.exchange(RequestCode.END_TRANSACTION, end_fields(half, decision, **changes))


def send_half(talk: TalkingBroker, **properties: str) -> Command:
    return talk.send("orders", 2, b"body", **{"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "U", **properties})


def test_a_half_message_is_hidden_until_it_is_committed(talk: TalkingBroker) -> None:
    """broker-requests#49, store-ha#71."""
    half = send_half(talk, TAGS="red")
    assert (half.ext_fields["queueId"], half.ext_fields["queueOffset"]) == ("2", "0")
    (hidden,) = stored(talk, names.HALF_TOPIC)
    assert (hidden.queue_id, hidden.sys_flag) == (0, 0)
    assert stored(talk, "orders", 2) == []
    (reply,) = end(talk, half, COMMIT)
    assert (reply.code, reply.remark, reply.ext_fields) == (ResponseCode.SUCCESS, None, {})
    (seen,) = stored(talk, "orders", 2)
    assert (seen.sys_flag, seen.prepared_transaction_offset) == (8, hidden.physical_offset)
    assert (seen.body, seen.properties_text) == (b"body", hidden.properties_text)
    (op,) = stored(talk, names.OP_HALF_TOPIC)
    assert (op.body, op.properties) == (b"0", {"WAIT": "true", "TAGS": "d"})


def test_a_commit_wakes_the_pull_that_waits_for_it(talk: TalkingBroker) -> None:
    half = send_half(talk)
    assert talk.pull("orders", queueId=2, sysFlag=2 | 4) == []
    end(talk, half, COMMIT)
    assert [reply.code for reply in talk.peer.replies[-2:]] == [ResponseCode.SUCCESS] * 2
    assert any(reply.body for reply in talk.peer.replies[-2:])


def test_a_rollback_leaves_an_op_record_and_nothing_else(talk: TalkingBroker) -> None:
    """broker-requests#50, store-ha#73."""
    half = send_half(talk)
    (reply,) = end(talk, half, ROLLBACK)
    assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, "not set any response code")
    assert stored(talk, "orders", 2) == []
    assert [op.body for op in stored(talk, names.OP_HALF_TOPIC)] == [b"0"]


@pytest.mark.parametrize("from_check", ["true", "false"])
def test_other_flags_than_commit_and_rollback_get_no_reply(talk: TalkingBroker, from_check: str) -> None:
    """broker-requests#50: also if the client waits for a reply."""
    half = send_half(talk)
    assert end(talk, half, 0, fromTransactionCheck=from_check) == []
    assert stored(talk, names.OP_HALF_TOPIC) == []


@pytest.mark.parametrize("decision", [4, 1, -1])
def test_an_invalid_decision_is_rejected(talk: TalkingBroker, decision: int) -> None:
    """broker-requests#50 (EndTransactionRequestHeader.checkFields)."""
    (reply,) = end(talk, send_half(talk), decision)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert stored(talk, names.OP_HALF_TOPIC) == []


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK, 0])
def test_a_slave_ends_no_transaction(slave: TalkingBroker, decision: int) -> None:
    """store-ha#73, #76, broker-requests#64: 11 in any case."""
    fields = {
        "producerGroup": "P", "tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": str(decision),
    }  # fmt: skip
    assert slave.ask(RequestCode.END_TRANSACTION, fields).code == ResponseCode.SLAVE_NOT_AVAILABLE
    bare = {"commitOrRollback": str(decision)}
    assert slave.ask(RequestCode.END_TRANSACTION, bare).code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert slave.ask(RequestCode.END_TRANSACTION).code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert slave.ask(RequestCode.END_TRANSACTION, {"commitOrRollback": "5"}).code == ResponseCode.SYSTEM_ERROR


def test_invalid_offsets_fail_only_where_they_are_required(talk: TalkingBroker) -> None:
    """broker-requests section 4.2."""
    fields = {"producerGroup": "P", "tranStateTableOffset": "abc", "commitLogOffset": "0"}
    assert talk.ask(RequestCode.END_TRANSACTION, fields | {"commitOrRollback": "8"}).code == ResponseCode.SYSTEM_ERROR
    assert talk.ask(RequestCode.END_TRANSACTION).code == ResponseCode.SYSTEM_ERROR
    assert talk.exchange(RequestCode.END_TRANSACTION, fields | {"commitOrRollback": "0"}) == []


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
@pytest.mark.parametrize(
    "changes",
    [
        {"producerGroup": "Q"},
        {"tranStateTableOffset": 1},
        {"commitLogOffset": 1},
        {"commitLogOffset": -1},
        {"commitLogOffset": 10**12},
    ],
    ids=str,
)
def test_a_mismatch_with_the_half_message_is_a_system_error(
    talk: TalkingBroker, decision: int, changes: dict[str, object]
) -> None:
    """Section 4.2."""
    half = send_half(talk)
    (reply,) = end(talk, half, decision, **changes)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert stored(talk, "orders", 2) == stored(talk, names.OP_HALF_TOPIC) == []


def test_a_plain_message_is_no_half_message(talk: TalkingBroker) -> None:
    plain = talk.send("orders", PGROUP="P")
    (reply,) = end(talk, plain, COMMIT)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert len(stored(talk, "orders")) == 1


def test_a_transaction_that_is_committed_twice_is_delivered_twice(talk: TalkingBroker) -> None:
    """Section 4.2: a previous resolution is not checked."""
    half = send_half(talk)
    end(talk, half, COMMIT)
    end(talk, half, COMMIT)
    assert len(stored(talk, "orders", 2)) == 2


def test_a_oneway_end_is_never_answered(talk: TalkingBroker) -> None:
    """broker-requests#2: what clients send."""
    half = send_half(talk)
    assert talk.exchange(RequestCode.END_TRANSACTION, end_fields(half, COMMIT), oneway=True) == []
    assert len(stored(talk, "orders", 2)) == 1


def test_a_commit_that_finds_no_slave_is_a_success(open_broker: OpenBroker) -> None:
    """Section 4.2: so are the store's results 10, 11 and 12."""
    talk = open_broker(broker_role="SYNC_MASTER")
    half = send_half(talk)
    assert half.code == ResponseCode.SLAVE_NOT_AVAILABLE
    (reply,) = end(talk, half, COMMIT)
    assert reply.code == ResponseCode.SUCCESS


@pytest.mark.parametrize("wait", ["true", "false"])
def test_a_commit_waits_for_the_copies_that_its_sender_asked_for(open_broker: OpenBroker, wait: str) -> None:
    """store-and-ha section 7.1: it obeys the original WAIT; the op record never waits."""
    is_held = wait == "true"
    talk = open_broker(broker_role="SYNC_MASTER", flush_disk_type="SYNC_FLUSH")
    talk.replication.has_slave = True
    sent = talk.exchange(RequestCode.SEND_MESSAGE_V2, _fields(WAIT=wait), b"body")
    broker, end_of_half = talk.broker, talk.broker.store.max_commit_log_offset
    assert (sent == []) is is_held
    talk.acknowledge(end_of_half)
    broker.flush_waits.advance(end_of_half)
    half = talk.peer.replies[-1]
    replies = end(talk, half, COMMIT)
    assert (replies == []) is is_held
    assert len(stored(talk, "orders", 2)) == len(stored(talk, names.OP_HALF_TOPIC)) == 1
    if is_held:
        assert len(broker.slave_waits) == len(broker.flush_waits) == 1
        before = len(talk.peer.replies)
        broker.flush_waits.advance(broker.store.max_commit_log_offset)
        assert len(talk.peer.replies) == before
        talk.clock.advance(4)
        talk.expire_slave_waits()  # the slave is late, and that is a success as well
        assert [reply.code for reply in talk.peer.replies[before:]] == [ResponseCode.SUCCESS]


def _fields(**properties: str) -> dict[str, str]:
    named = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "U", **properties}
    text = "".join(f"{name}\x01{value}\x02" for name, value in named.items())
    return {
        "a": "P", "b": "orders", "c": "TBW102", "d": "4", "e": "2", "f": "4", "g": "1700000000000", "h": "0", "i": text,
    }  # fmt: skip


def test_a_commit_that_the_store_refuses_is_an_error_and_leaves_the_half_message_open(talk: TalkingBroker) -> None:
    half = send_half(talk)
    talk.broker.store.putter.refusal = "the disk is full"
    (reply,) = end(talk, half, COMMIT)
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
    talk.broker.store.putter.refusal = None
    assert stored(talk, names.OP_HALF_TOPIC) == []


# ---- RESUME_CHECK_HALF_MESSAGE ---------------------------------------------------------------------------


def resume(talk: TalkingBroker, message_id: str) -> Command:
    return talk.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})


def test_a_message_that_was_given_up_is_brought_back_unasked(talk: TalkingBroker) -> None:
    """Section 6.3: code 323."""
    properties = {"REAL_TOPIC": "orders", "REAL_QID": "2", "PGROUP": "P", "TRANSACTION_CHECK_TIMES": "15"}
    put = talk.broker.store.put(new_message(topic=names.TRANS_CHECK_MAX_TIME_TOPIC, properties=properties))
    assert resume(talk, offset_message_id("127.0.0.1", 10911, put.physical_offset)).code == ResponseCode.SUCCESS
    (half,) = stored(talk, names.HALF_TOPIC)
    assert half.properties == properties | {"TRANSACTION_CHECK_TIMES": "0"}


@pytest.mark.parametrize("message_id", ["", "no id", "7F00000100002A9F0000000000FFFFFF", "00" * 16])
def test_a_message_that_is_no_half_message_is_not_resumed(talk: TalkingBroker, message_id: str) -> None:
    talk.send("orders")
    assert resume(talk, message_id).code == ResponseCode.SYSTEM_ERROR
    assert stored(talk, names.HALF_TOPIC) == []


def test_a_slave_brings_nothing_back(slave: TalkingBroker) -> None:
    """broker-requests#64, section 7."""
    assert resume(slave, "00" * 16).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_TOPIC": "orders", "REAL_QID": "first"},
        {"REAL_TOPIC": "orders", "REAL_QID": "9" * 5000},
        {"REAL_TOPIC": "orders", "REAL_QID": str(2**31)},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "DELAY": "soon"},
        {"REAL_TOPIC": "orders", "REAL_QID": "0", "DELAY": str(2**31)},
        {"REAL_TOPIC": "a/b", "REAL_QID": "0"},
    ],
)
def test_a_message_that_does_not_say_where_it_belongs_is_not_committed(
    talk: TalkingBroker, properties: dict[str, str]
) -> None:
    """Issue 12.3: any client can send and commit a message with these properties."""
    sent = talk.ask(
        RequestCode.SEND_MESSAGE_V2, send_fields("orders", 0, PGROUP="P", **properties) | {"f": "4"}, b"x"
    )  # a half message by its flag: DELAY is not looked at yet
    assert sent.code == ResponseCode.SUCCESS
    end_before, queues = talk.broker.store.max_commit_log_offset, set(talk.broker.store.topics_queues())
    (reply,) = end(talk, sent, COMMIT)
    assert reply.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL)
    assert talk.broker.store.max_commit_log_offset == end_before
    assert set(talk.broker.store.topics_queues()) == queues
    assert not talk.broker.errors.counts
