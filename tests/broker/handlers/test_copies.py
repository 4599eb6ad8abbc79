"""`obey_min_copies`: messages that demand copies (issue 16, part 3)."""

from collections.abc import Callable

import pytest

from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting import names
from rmqlab.remoting.batch import BatchItem, encode_batch
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import decode_message, format_properties

Opener = Callable[..., TalkingBroker]

ROLES = ("ASYNC_MASTER", "SYNC_MASTER")


def send(talk: TalkingBroker, **properties: str) -> list[Command]:
    return talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T", 0, **properties), b"hello")


def send_batch(talk: TalkingBroker, *copies: str | None, **shared: str) -> list[Command]:
    items = [BatchItem(b"x", format_properties({} if one is None else {"MIN_COPIES": one}).encode()) for one in copies]
    fields = send_fields("T", 0, **shared) | {"m": "true"}
    return talk.exchange(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(items))


def with_slaves(talk: TalkingBroker) -> TalkingBroker:
    talk.replication.has_slave = True
    return talk


def end_of(talk: TalkingBroker) -> int:
    return talk.broker.store.max_commit_log_offset


def codes(talk: TalkingBroker) -> list[int]:
    return [reply.code for reply in talk.peer.replies]


@pytest.mark.parametrize("value", ["2", "nonsense"])
def test_in_4_9_the_property_is_stored_and_ignored(talk: TalkingBroker, value: str) -> None:
    assert [reply.code for reply in send(talk, MIN_COPIES=value)] == [ResponseCode.SUCCESS]
    (record,) = [decode_message(talk.broker.store.message_at(0) or b"")]
    assert record.properties["MIN_COPIES"] == value


@pytest.mark.parametrize("role", ROLES)
def test_a_message_waits_for_the_copies_that_it_demands(open_broker: Opener, role: str) -> None:
    """Of an asynchronous master too; a copy by 4.9's rule is not enough."""
    talk = with_slaves(open_broker(broker_role=role, obey_min_copies=True))
    assert send(talk, MIN_COPIES="3") == []
    for copies in (0, 2):
        talk.acknowledge(end_of(talk), copies)
    assert codes(talk) == []
    talk.acknowledge(end_of(talk), 3)
    assert codes(talk) == [ResponseCode.SUCCESS]


@pytest.mark.parametrize("role", ROLES)
def test_without_slaves_enough_the_message_is_stored_and_the_reply_says_so(open_broker: Opener, role: str) -> None:
    talk = open_broker(broker_role=role, obey_min_copies=True)
    (reply,) = send(talk, MIN_COPIES="2")
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert talk.pull("T")[0].code == ResponseCode.SUCCESS


def test_a_late_slave_is_a_timeout(open_broker: Opener) -> None:
    talk = with_slaves(open_broker(obey_min_copies=True))
    send(talk, MIN_COPIES="2")
    talk.clock.advance(3)
    talk.expire_slave_waits()
    assert codes(talk) == [ResponseCode.FLUSH_SLAVE_TIMEOUT]


@pytest.mark.parametrize("demand", [{}, {"MIN_COPIES": "1"}])
def test_a_message_cannot_demand_less_than_the_broker_is_configured_for(
    open_broker: Opener, demand: dict[str, str]
) -> None:
    talk = with_slaves(open_broker(broker_role="SYNC_MASTER", in_sync_replicas=3, obey_min_copies=True))
    assert send(talk, **demand) == []
    assert send(talk, MIN_COPIES="2") == []
    talk.acknowledge(end_of(talk), 2)
    assert codes(talk) == []
    talk.acknowledge(end_of(talk), 3)
    assert codes(talk) == [ResponseCode.SUCCESS] * 2


@pytest.mark.parametrize("demand", [{}, {"MIN_COPIES": "1"}, {"MIN_COPIES": "2", "WAIT": "false"}])
def test_an_asynchronous_master_replies_at_once_without_a_demand(talk: TalkingBroker, demand: dict[str, str]) -> None:
    """1 is the master alone. WAIT=false says that the sender does not wait."""
    change = {"obeyMinCopies": "true"}
    talk.broker.reconfigure(talk.broker.settings.changed(change))
    assert [reply.code for reply in send(talk, **demand)] == [ResponseCode.SUCCESS]


@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_an_invalid_number_is_rejected_and_nothing_is_stored(open_broker: Opener, value: str) -> None:
    talk = with_slaves(open_broker(obey_min_copies=True))
    replies = send(talk, MIN_COPIES=value) + send_batch(talk, "2", value) + send_batch(talk, None, MIN_COPIES=value)
    reply_message = talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, send_fields("T", MIN_COPIES=value), b"x")
    for reply in (*replies, reply_message):
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert (reply.remark or "").startswith(f"MIN_COPIES is '{value}': expected the number of logs")
    assert end_of(talk) == 0


@pytest.mark.parametrize(
    ("demands", "shared"),
    [(("2", "3", None), {}), ((None, None), {"MIN_COPIES": "3"}), (("2",), {"MIN_COPIES": "3"})],
)
def test_a_batch_waits_for_its_greatest_demand(
    open_broker: Opener, demands: tuple[str | None, ...], shared: dict[str, str]
) -> None:
    talk = with_slaves(open_broker(obey_min_copies=True))
    assert send_batch(talk, *demands, **shared) == []
    talk.acknowledge(end_of(talk), 2)
    assert codes(talk) == []
    talk.acknowledge(end_of(talk), 3)
    assert codes(talk) == [ResponseCode.SUCCESS]


def test_a_batch_without_a_demand_does_not_wait(open_broker: Opener) -> None:
    talk = open_broker(obey_min_copies=True)
    assert [reply.code for reply in send_batch(talk, None, None)] == [ResponseCode.SUCCESS]


def test_a_reply_message_waits_for_the_copies_that_it_demands(open_broker: Opener) -> None:
    """Its reply reports the push only, as for `in_sync_replicas`."""
    talk = with_slaves(open_broker(obey_min_copies=True))
    fields = send_fields("T", MIN_COPIES="2")
    assert talk.exchange(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"x") == []
    talk.acknowledge(end_of(talk), 2)
    assert codes(talk) == [ResponseCode.SYSTEM_ERROR]
    assert "is null" in (talk.peer.replies[0].remark or "")


@pytest.mark.parametrize("settings", [{"obey_min_copies": True}, {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}])
def test_a_message_that_is_handed_back_does_not_wait(open_broker: Opener, settings: dict[str, object]) -> None:
    """4.9.8 stores the copy with WAIT=false, also with `in_sync_replicas`."""
    talk = open_broker(**settings)
    send(talk, MIN_COPIES="2")
    talk.heartbeat("g", "T")
    fields = {"offset": "0", "group": "g", "delayLevel": "0", "originTopic": "T", "unitMode": "false"}
    assert talk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields).code == ResponseCode.SUCCESS
    (entry,) = talk.broker.store.queue_entries(names.SCHEDULE_TOPIC, 2, 0, 1)
    copy = decode_message(talk.broker.store.message_at(entry[0]) or b"")
    assert (copy.properties["MIN_COPIES"], copy.properties["WAIT"]) == ("2", "false")


def half_fields(**properties: str) -> dict[str, str]:
    return send_fields("T", 0, TRAN_MSG="true", PGROUP="P", UNIQ_KEY="U", **properties) | {"f": "4"}


def commit(talk: TalkingBroker, half: Command) -> list[Command]:
    fields = {
        "producerGroup": "P",
        "tranStateTableOffset": half.ext_fields["queueOffset"],
        "commitLogOffset": str(int(half.ext_fields["msgId"][16:], 16)),
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": "U",
    }
    return talk.exchange(RequestCode.END_TRANSACTION, fields)


def test_the_half_message_and_the_commit_wait_for_the_copies(open_broker: Opener) -> None:
    """The reply to a commit is always a success, as for `in_sync_replicas`."""
    talk = with_slaves(open_broker(obey_min_copies=True))
    assert talk.exchange(RequestCode.SEND_MESSAGE_V2, half_fields(MIN_COPIES="2"), b"x") == []
    talk.acknowledge(end_of(talk), 2)
    assert codes(talk) == [ResponseCode.SUCCESS]
    assert commit(talk, talk.peer.replies[0]) == []
    talk.clock.advance(3)
    talk.expire_slave_waits()
    assert codes(talk) == [ResponseCode.SUCCESS] * 2


def test_a_half_message_with_an_invalid_number_from_before_the_switch_is_committed(talk: TalkingBroker) -> None:
    """Refusing the commit would lose an accepted message."""
    half = talk.ask(RequestCode.SEND_MESSAGE_V2, half_fields(MIN_COPIES="many"), b"x")
    talk.broker.reconfigure(talk.broker.settings.changed({"obeyMinCopies": "true"}))
    assert [reply.code for reply in commit(talk, half)] == [ResponseCode.SUCCESS]
    assert talk.broker.store.max_queue_offset("T", 0) == 1
