"""What a broker says of messages that wait inside it."""

from broker.snapshot import delayed, half_messages
from broker.testing import TalkingBroker, send_fields
from broker.transactions import TransactionCheck
from remoting.codes import RequestCode, ResponseCode
from remoting.command import Command
from remoting.message import parse_offset_message_id


def send_half(talk: TalkingBroker) -> Command:
    fields = send_fields("orders", TRAN_MSG="true", PGROUP="P", UNIQ_KEY="U", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    return talk.ask(RequestCode.SEND_MESSAGE_V2, fields | {"g": str(talk.clock.now_millis())}, b"body")


def commit(talk: TalkingBroker, half: Command) -> None:
    fields = {
        "producerGroup": "P", "tranStateTableOffset": half.ext_fields["queueOffset"], "commitOrRollback": "8",
        "commitLogOffset": str(parse_offset_message_id(half.ext_fields["msgId"])[2]), "msgId": "U",
    }  # fmt: skip
    assert talk.ask(RequestCode.END_TRANSACTION, fields).code == ResponseCode.SUCCESS


def test_how_far_delayed_messages_are_delivered(talk: TalkingBroker) -> None:
    assert delayed(talk.broker) == {}
    for level in ("1", "3", "3"):
        talk.send("T", DELAY=level)
    assert delayed(talk.broker) == {"1": {"delivered": 0, "end": 1}, "3": {"delivered": 0, "end": 2}}
    talk.clock.advance(2)
    talk.broker.delay.deliver_due()
    assert delayed(talk.broker) == {"1": {"delivered": 1, "end": 1}, "3": {"delivered": 0, "end": 2}}


async def test_how_many_half_messages_nobody_has_resolved(talk: TalkingBroker) -> None:
    """Those that were committed do not count, whether a check has come past them or not; nor do copies count twice."""
    halves = [send_half(talk) for _ in range(5)]
    assert half_messages(talk.broker) == {"done": 0, "end": 5, "op_done": 0, "op_end": 0, "backlog": 5}
    commit(talk, halves[0])
    commit(talk, halves[3])
    assert half_messages(talk.broker) == {"done": 0, "end": 5, "op_done": 0, "op_end": 2, "backlog": 3}
    check = TransactionCheck(talk.broker)
    for _ in range(3):
        await check.check()
        waiting = half_messages(talk.broker)
        assert waiting is not None
        assert (waiting["backlog"], waiting["op_done"]) == (3, 2)


def test_a_slave_does_neither(slave: TalkingBroker) -> None:
    assert delayed(slave.broker) is None
    assert half_messages(slave.broker) is None
